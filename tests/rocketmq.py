"""Real RocketMQ for the tests: a NameServer, brokers and consumers, each in a process of its own.

A run has one cluster (`rocketmq_cluster`), whose tests form the group "rocketmq" and take topics and groups of their
own. What a test starts it ends, and a broker that it kills it starts again. Everything is started, waited for and ended
by pid, with its files in one folder that is deleted.
"""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conf.settings import Settings
from tests.rocketmq_clocks import Clocks
from tests.rocketmq_consumer import Consumer
from tests.rocketmq_operator import Operator
from tests.rocketmq_server import Server, broker_lines, broker_port, start_broker, start_name_server, wait_for

SCALED = Clocks(4)


class RocketMQ:
    """A NameServer and its brokers, one cluster; `topics` were created here and not deleted.

    `clocks` are those of its brokers, and of a consumer that is not given others.
    """

    def __init__(self, jars: Path, folder: Path, clocks: Clocks, brokers: int = 2) -> None:
        self.jars, self.folder, self.clocks = jars, folder, clocks
        self.brokers: dict[str, Server] = {}
        self.topics: set[str] = set()
        self._operator: Operator | None = None
        try:
            self.namesrv = start_name_server(jars, folder / "namesrv")
            self.name_server = self.namesrv.address
            self._operator = Operator(jars, folder, self.name_server)
            self.namesrv.wait()
            for letter in "abcdefgh"[:brokers]:
                self.start_broker(f"broker-{letter}")
            self._operator.start()
            self.wait_for_brokers()
        except BaseException:
            self.stop()
            raise

    @property
    def operator(self) -> Operator:
        """Who may do to its brokers, by address, what is no method here."""
        assert self._operator
        return self._operator

    def start_broker(self, broker_name: str) -> Server:
        """Start a broker, or start it again with the data it had; `wait_for_brokers` returns when it is there."""
        port = self.brokers[broker_name].port if broker_name in self.brokers else broker_port()
        store = self.folder / "store" / broker_name
        lines = {**broker_lines(broker_name, port, self.name_server, store), **self.clocks.broker_config()}
        folder = self.folder / f"{broker_name}-{time.monotonic_ns()}"
        self.brokers[broker_name] = start_broker(self.jars, folder, lines)
        return self.brokers[broker_name]

    def wait_for_brokers(self) -> None:
        """Return when every broker listens and the NameServer knows it."""
        for server in self.brokers.values():
            server.wait()
        wait_for("every broker is registered", self._are_registered)

    def set_clocks(self, clocks: Clocks) -> None:
        """`clocks` are those of the brokers from now on, and of consumers that are started from now on."""
        for address in self._addresses():
            self.operator.update_config(address, clocks.broker_config())
        self.clocks = clocks

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create `topic` with `queues` read and write queues on every broker; return when its route has them all."""
        self.operator.put_topic(self._addresses(), topic, queues, queues)
        wait_for(f"the route of {topic}", lambda: self.operator.brokers_of(topic) == set(self.brokers))
        self.topics.add(topic)

    def delete_topic(self, topic: str) -> None:
        """Delete `topic` on every broker and at the NameServer."""
        self.operator.delete_topic(self._addresses(), topic)
        self.topics.discard(topic)

    def set_consume_enable(self, group: str, broker_name: str, enabled: bool) -> None:
        """consumeEnable of a group's SubscriptionGroupConfig at one broker: whether its pulls are served."""
        self.operator.set_consume_enable(self.brokers[broker_name].address, group, enabled)

    def create_group(self, group: str) -> None:
        """Give every broker a configuration of the group."""
        self.operator.put_group(self._addresses(), group)

    def delete_group(self, group: str) -> None:
        """Delete the group's configuration on every broker, as mqadmin deleteSubGroup does."""
        self.operator.delete_group(self._addresses(), group)

    @contextlib.contextmanager
    def consumers(
        self, topic: str, *members: tuple[str, str], clocks: Clocks | None = None
    ) -> Iterator[list[Consumer]]:
        """A consumer of `topic` for each (group, instance_name), started side by side; the block's end ends them."""

        def start(member: tuple[str, str]) -> Consumer:
            group, instance_name = member
            return Consumer(
                self.jars,
                self.name_server,
                clocks or self.clocks,
                group=group,
                topic=topic,
                instance_name=instance_name,
            )

        with contextlib.ExitStack() as stack:
            with ThreadPoolExecutor(len(members)) as threads:
                starts = [threads.submit(start, member) for member in members]
            for one in starts:
                if one.exception() is None:
                    stack.callback(one.result().close)
            yield [one.result() for one in starts]

    def mqadmin(self, *arguments: str) -> str:
        """What `mqadmin ARGUMENTS -n NAME_SERVER` prints."""
        return self.operator.mqadmin(*arguments)

    def consumer_status(self, group: str) -> str:
        """What RocketMQ's own check says of a group: `mqadmin consumerStatus`."""
        return self.mqadmin("consumerStatus", "-g", group)

    def stop(self) -> None:
        """End every process that was started here; the data is thrown away, so nobody is asked to save it."""
        if self._operator:
            self._operator.close()
        for server in [*self.brokers.values(), *([self.namesrv] if hasattr(self, "namesrv") else [])]:
            server.kill()

    def _are_registered(self) -> bool:
        """Whether the NameServer knows every broker; one that it does not know is made to register.

        The first time a broker registers it has no connection to a NameServer yet. It tries again 10 s later, or at
        once when its permission is set.
        """
        known = self.operator.registered(self.name_server).keys()
        for broker_name in self.brokers.keys() - known:
            self.operator.update_config(self.brokers[broker_name].address, {"brokerPermission": "6"})
        return known == self.brokers.keys()

    def _addresses(self) -> list[str]:
        return [broker.address for broker in self.brokers.values()]


@contextlib.contextmanager
def rocketmq(jars: Path, clocks: Clocks) -> Iterator[RocketMQ]:
    """A RocketMQ cluster whose files are deleted when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="balancewatch-rocketmq-test-"))
    try:
        cluster = RocketMQ(jars, folder, clocks)
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def rocketmq_cluster() -> Iterator[RocketMQ]:
    """The one real cluster of a run: two brokers, its clocks four times as fast as in production."""
    with rocketmq(Settings.load().paths.jars, SCALED) as cluster:
        yield cluster
