"""Real RocketMQ for the tests: a NameServer, brokers and consumers, each in a process of its own.

A run has one cluster (`rocketmq_cluster`), whose tests form the group "rocketmq" and take topics and groups of their
own. What a test starts it ends, and a broker that it kills it starts again. Everything is started, waited for and ended
by pid, with its files in one folder that is deleted.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.collector.rocketmq_jvm import RocketMQError
from tests.support.rocketmq_clocks import Clocks
from tests.support.rocketmq_consumer import Consumer
from tests.support.rocketmq_operator import READ_WRITE, Operator
from tests.support.rocketmq_server import Server, broker_lines, broker_port, start_broker, start_name_server, wait_for

SCALED = Clocks(4)

MASTERS = ("broker-a", "broker-b")


class RocketMQ:
    """NameServers and two masters, one cluster; `topics` were created here and not deleted.

    `clocks` are those of its brokers, and of a consumer that is not given others. Threads may use it side by side. A
    broker that is started again has its port and its data. `brokers` has a slave as "broker-a-slave".
    """

    def __init__(
        self,
        jars: Path,
        folder: Path,
        clocks: Clocks,
        *,
        name_servers: int = 1,
        slaves: tuple[str, ...] = (),
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Start all of it; `settings` are further lines of each broker's configuration."""
        self.jars, self.folder, self.clocks = jars, folder, clocks
        self.brokers: dict[str, Server] = {}
        self.name_servers: list[Server] = []
        self.topics: set[str] = set()
        self._settings = settings or {}
        self._operator: Operator | None = None
        try:
            for number in range(name_servers):
                self.name_servers.append(start_name_server(jars, folder / f"name-server-{number}"))
            self.name_server = ";".join(server.address for server in self.name_servers)
            self._operator = Operator(jars, folder, self.name_server)
            for server in self.name_servers:
                server.wait()
            for name in (*MASTERS, *slaves):
                self._launch(name)
            self.operator.start()
            with ThreadPoolExecutor(len(self.brokers)) as threads:
                list(threads.map(self.start_broker, self.brokers))
        except BaseException:
            self.stop()
            raise

    @property
    def operator(self) -> Operator:
        """The admin client of the cluster; it names brokers by address."""
        assert self._operator
        return self._operator

    @property
    def servers(self) -> dict[str, int]:
        """Port by name, as Links take them."""
        ports = {f"name-server-{number}": server.port for number, server in enumerate(self.name_servers)}
        return ports | {name: server.port for name, server in self.brokers.items()}

    def start_broker(self, name: str) -> None:
        """Start a broker, unless it runs; return when it is registered at every NameServer that runs."""
        self._launch(name)
        self.brokers[name].wait()
        wait_for(f"{name} is registered", lambda: self.is_registered(name))

    def is_registered(self, name: str) -> bool:
        """Whether every NameServer that runs knows the broker; one that is not known is made to register.

        The first time a broker registers it has no connection to a NameServer yet. It tries again 10 s later, or at
        once when its permission is set.
        """
        running = [server for server in self.name_servers if server.is_alive()]
        broker_name, broker_id = name.removesuffix("-slave"), int(name not in MASTERS)
        try:
            known = [self.operator.registered(server.address).get(broker_name, set()) for server in running]
            if all(broker_id in ids for ids in known):
                return True
            self.operator.update_config(self.brokers[name].address, {"brokerPermission": str(READ_WRITE)})
        except RocketMQError:
            pass  # on a busy machine a question may find no answer; the next one is asked soon
        return False

    def create_topic(
        self, topic: str, queues: int = 4, *, perm: int = READ_WRITE, brokers: Iterable[str] | None = None
    ) -> None:
        """With `queues` read and write queues on each of `brokers`, masters; return when its route has them."""
        names = set(brokers or MASTERS)
        self.operator.put_topic(self.addresses(names), topic, queues, queues, perm)
        wait_for(f"the route of {topic}", lambda: self.operator.brokers_of(topic) == names)
        self.topics.add(topic)

    def delete_topic(self, topic: str) -> None:
        """On every master that runs, and at the NameServers."""
        self.operator.delete_topic(self.addresses(), topic)
        self.topics.discard(topic)

    def create_group(self, group: str) -> None:
        """On every master."""
        self.operator.put_group(self.addresses(), group)

    def set_consume_enable(self, group: str, broker: str | None, enabled: bool) -> None:
        """consumeEnable of the group's SubscriptionGroupConfig at one master or every one: whether pulls are served."""
        for address in self.addresses([broker] if broker else MASTERS):
            self.operator.set_consume_enable(address, group, enabled)

    def delete_group(self, group: str) -> None:
        """Its configuration and its offsets, on every master that runs."""
        self.operator.delete_group(self.addresses(), group)

    @contextlib.contextmanager
    def consumers(
        self, topic: str, *members: tuple[str, str], clocks: Clocks | None = None
    ) -> Iterator[list[Consumer]]:
        """A consumer of `topic` for each (group, instance_name), started side by side; the block's end ends them."""

        def start(member: tuple[str, str]) -> Consumer:
            used = clocks or self.clocks
            return Consumer(self.jars, self.name_server, used, group=member[0], topic=topic, instance_name=member[1])

        with contextlib.ExitStack() as stack:
            with ThreadPoolExecutor(len(members)) as threads:
                starts = [threads.submit(start, member) for member in members]
            for one in starts:
                if one.exception() is None:
                    stack.callback(one.result().close)
            yield [one.result() for one in starts]

    def addresses(self, names: Iterable[str] = MASTERS) -> list[str]:
        """Of those that run."""
        return [self.brokers[name].address for name in names if self.brokers[name].is_alive()]

    def stop(self) -> None:
        """Kill every process that was started here; their data is not needed."""
        if self._operator:
            self._operator.close()
        for server in [*self.brokers.values(), *self.name_servers]:
            server.kill()

    def _launch(self, name: str) -> None:
        """Start the process of a broker, unless it runs."""
        was = self.brokers.get(name)
        if was and was.is_alive():
            return
        broker_name, broker_id = name.removesuffix("-slave"), int(name not in MASTERS)
        store = self.folder / "store" / name
        lines = broker_lines(broker_name, was.port if was else broker_port(), self.name_server, store, broker_id)
        folder = self.folder / f"{name}-{time.monotonic_ns()}"
        self.brokers[name] = start_broker(self.jars, folder, {**lines, **self.clocks.broker_config(), **self._settings})


@contextlib.contextmanager
def rocketmq(jars: Path, clocks: Clocks) -> Iterator[RocketMQ]:
    """A RocketMQ cluster whose files are deleted when it ends."""
    with tempfile.TemporaryDirectory(prefix="balancewatch-rocketmq-test-", ignore_cleanup_errors=True) as folder:
        cluster = RocketMQ(jars, Path(folder), clocks)
        try:
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="session")
def rocketmq_cluster() -> Iterator[RocketMQ]:
    """The one real cluster of a run: two brokers, its clocks four times as fast as in production."""
    with rocketmq(Settings.load().paths.jars, SCALED) as cluster:
        yield cluster
