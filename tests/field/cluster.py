"""A RocketMQ cluster: two NameServers, two masters, a slave that replicates one of them, and a 5.x proxy."""

import json
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.kafka_io.embedded_kafka import free_port
from tests.rocketmq_clocks import Clocks
from tests.rocketmq_operator import READ_WRITE, Operator
from tests.rocketmq_server import CLUSTER, Server, broker_lines, broker_port, start_broker, start_name_server, wait_for

MASTERS = ("broker-a", "broker-b")
SLAVE = "broker-a-slave"

SLAVE_READ = {"slaveReadEnable": "true"}
"""Without it a slave refuses every pull, whether its master lives or not."""


class Broker:
    """A master or slave on one port all its life; a restart keeps its data.

    `name` is the field's ("broker-a-slave"), `broker_name` is RocketMQ's, which master and slave share.
    """

    def __init__(
        self, jars: Path, folder: Path, name: str, broker_name: str, broker_id: int, settings: Mapping[str, object]
    ) -> None:
        self.name, self.broker_name, self.broker_id = name, broker_name, broker_id
        self.port = broker_port()
        self.address = f"127.0.0.1:{self.port}"
        self._jars, self._folder, self._settings = jars, folder, settings
        self._server: Server | None = None

    @property
    def server(self) -> Server:
        assert self._server, f"{self.name} was not started"
        return self._server

    def is_alive(self) -> bool:
        return self._server is not None and self._server.is_alive()

    def start(self, name_server: str) -> None:
        """Start its process, unless it runs; return before it listens and is registered."""
        if self.is_alive():
            return
        store = self._folder / "store" / self.name
        lines = broker_lines(self.broker_name, self.port, name_server, store, self.broker_id)
        folder = self._folder / f"{self.name}-{time.monotonic_ns()}"
        self._server = start_broker(self._jars, folder, {**lines, **self._settings})


PROXY = "org.apache.rocketmq.proxy.ProxyStartup"


def start_proxy(jars: Path, folder: Path, port: int, remoting_port: int, name_server: str) -> Server:
    """Start the 5.x proxy in cluster mode, gRPC on `port`. It names the port of the client's link."""
    config = folder.with_suffix(".json")
    config.write_text(
        json.dumps(
            {
                "rocketMQClusterName": CLUSTER,
                "namesrvAddr": name_server,
                "proxyMode": "CLUSTER",
                "grpcServerPort": port,
                "remotingListenPort": remoting_port,
                "useEndpointPortFromRequest": True,
                "localServeAddr": "127.0.0.1",
                "grpcThreadPoolNums": 8,
            }
        )
    )
    return Server(jars, folder, port, [PROXY, "-pc", str(config)], "256m", jar_set="proxy")


class FieldCluster:
    """Started when made; `stop` ends it. Brokers are named as in MASTERS and SLAVE, NameServers are 0 and 1.

    Threads may use it side by side. A broker or NameServer that is started again has its port and its data.
    """

    def __init__(self, jars: Path, folder: Path, clocks: Clocks | None = None, *, proxy: bool = False) -> None:
        self.jars, self.folder, self.clocks = jars, folder, clocks or Clocks(1)
        self.brokers: dict[str, Broker] = {}
        self.name_servers: list[Server] = []
        self.proxy: Server | None = None
        self._operator: Operator | None = None
        try:
            self.name_servers = [start_name_server(jars, folder / f"name-server-{number}") for number in range(2)]
            self.name_server = ";".join(server.address for server in self.name_servers)
            self._start(proxy)
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
        ports |= {name: broker.port for name, broker in self.brokers.items()}
        return ports | ({"proxy": self.proxy.port} if self.proxy else {})

    def create_topic(
        self,
        topic: str,
        queues: int = 4,
        *,
        perm: int = READ_WRITE,
        brokers: Iterable[str] | None = None,
        is_ordered: bool = False,
    ) -> None:
        """With `queues` read and write queues on each of `brokers`, masters; return when its route has them.

        `is_ordered`: its route is the NameServers' order configuration, and stays while a broker is away.
        """
        names = sorted(brokers or MASTERS)
        self.operator.put_topic(self._addresses(names), topic, queues, queues, perm, order=is_ordered)
        if is_ordered:
            self.operator.put_order_conf(topic, ";".join(f"{name}:{queues}" for name in names))
        wait_for(f"the route of {topic}", lambda: self.operator.brokers_of(topic) == set(names))

    def alter_topic(
        self,
        topic: str,
        broker: str | None = None,
        *,
        read_queue_nums: int | None = None,
        write_queue_nums: int | None = None,
        perm: int | None = None,
    ) -> None:
        """On one master or on every one that has it and runs; None leaves a value as it is."""
        for address in self._addresses([broker] if broker else sorted(self.operator.brokers_of(topic))):
            was = self.operator.topic_config(address, topic)
            self.operator.put_topic(
                [address],
                topic,
                int(was.getReadQueueNums()) if read_queue_nums is None else read_queue_nums,
                int(was.getWriteQueueNums()) if write_queue_nums is None else write_queue_nums,
                int(was.getPerm()) if perm is None else perm,
                order=bool(was.isOrder()),
            )

    def delete_topic(self, topic: str) -> None:
        """On every broker that runs, and at the NameServers."""
        self.operator.delete_topic(self._addresses(), topic)

    def create_group(self, group: str, *, is_orderly: bool = False) -> None:
        """On every master; `is_orderly` is consumeMessageOrderly, by which a proxy knows a FIFO group."""
        self.operator.put_group(self._addresses(), group, is_orderly=is_orderly)

    def set_consume_enable(self, group: str, enabled: bool, broker: str | None = None) -> None:
        """Whether the group's pulls are served, at one master or at every one."""
        for address in self._addresses([broker] if broker else MASTERS):
            self.operator.set_consume_enable(address, group, enabled)

    def set_pop(self, group: str, topic: str) -> None:
        """The group pops the topic: its message request mode on every master."""
        for address in self._addresses():
            self.operator.set_pop(address, topic, group)

    def delete_group(self, group: str) -> None:
        """Its configuration and its offsets, on every master that runs."""
        self.operator.delete_group(self._addresses(), group)

    def mqadmin(self, *arguments: str) -> str:
        """What `mqadmin ARGUMENTS -n NAME_SERVER` prints."""
        return self.operator.mqadmin(*arguments)

    def start_broker(self, name: str) -> None:
        """Return when it is registered at every NameServer that runs."""
        broker = self.brokers[name]
        broker.start(self.name_server)
        broker.server.wait()
        wait_for(f"{name} is registered", lambda: self._is_registered(broker))

    def start_name_server(self, number: int) -> None:
        """Return when every broker that runs is registered there."""
        was = self.name_servers[number]
        if not was.is_alive():
            folder = self.folder / f"name-server-{number}-{time.monotonic_ns()}"
            self.name_servers[number] = start_name_server(self.jars, folder, was.port)
        self.name_servers[number].wait()
        running = [broker for broker in self.brokers.values() if broker.is_alive()]
        wait_for("every broker is registered", lambda: all(self._is_registered(broker) for broker in running))

    def stop(self) -> None:
        """Kill every process that was started here; their data is not needed."""
        if self._operator:
            self._operator.close()
        brokers = [broker.server for broker in self.brokers.values() if broker.is_alive()]
        for server in [*([self.proxy] if self.proxy else []), *brokers, *self.name_servers]:
            server.kill()

    def _start(self, proxy: bool) -> None:
        self._operator = Operator(self.jars, self.folder, self.name_server)
        settings = {**self.clocks.broker_config(), **SLAVE_READ}
        for server in self.name_servers:
            server.wait()
        for name in (*MASTERS, SLAVE):
            broker_name, broker_id = name.removesuffix("-slave"), int(name == SLAVE)
            self.brokers[name] = Broker(self.jars, self.folder, name, broker_name, broker_id, settings)
            self.brokers[name].start(self.name_server)
        self.operator.start()
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(self.start_broker, self.brokers))
        wait_for("the slave has its master's log", self.is_replicated)
        if proxy:
            port, remoting_port = free_port(), free_port()
            self.proxy = start_proxy(self.jars, self.folder / "proxy", port, remoting_port, self.name_server)
            self.proxy.wait()

    def is_replicated(self) -> bool:
        """Whether the slave has acknowledged all that broker-a has."""
        end, acknowledged = self.operator.ha_offsets(self.brokers["broker-a"].address)
        return acknowledged == [end]

    def _is_registered(self, broker: Broker) -> bool:
        """At every NameServer that runs; one that does not know the broker makes it register.

        The first time a broker registers it has no connection to a NameServer yet. It tries again 10 s later, or at
        once when its permission is set.
        """
        running = [server for server in self.name_servers if server.is_alive()]
        try:
            known = [self.operator.registered(server.address).get(broker.broker_name, set()) for server in running]
            if all(broker.broker_id in ids for ids in known):
                return True
            self.operator.update_config(broker.address, {"brokerPermission": str(READ_WRITE)})
        except RocketMQError:
            pass  # on a busy machine a question may find no answer; the next one is asked soon
        return False

    def _addresses(self, names: Iterable[str] = MASTERS) -> list[str]:
        """Of those that run."""
        return [self.brokers[name].address for name in names if self.brokers[name].is_alive()]
