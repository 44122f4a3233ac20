"""The field's RocketMQ cluster: two NameServers, two masters, a slave that replicates one of them, and a 5.x proxy."""

import json
import time
from pathlib import Path

from streaming.kafka_io.embedded_kafka import free_port
from tests.support.rocketmq import RocketMQ
from tests.support.rocketmq_clocks import Clocks
from tests.support.rocketmq_server import CLUSTER, Server, start_name_server, wait_for

SLAVE = "broker-a-slave"

SLAVE_READ = {"slaveReadEnable": "true"}
"""Without it a slave refuses every pull, whether its master lives or not."""

PROXY = "org.apache.rocketmq.proxy.ProxyStartup"


class FieldCluster(RocketMQ):
    """Started when made; `stop` ends it. NameServers are 0 and 1; one that is started again has its port."""

    def __init__(self, jars: Path, folder: Path, clocks: Clocks, *, proxy: bool = False) -> None:
        self.proxy: Server | None = None
        super().__init__(jars, folder, clocks, name_servers=2, slaves=(SLAVE,), settings=SLAVE_READ)
        try:
            wait_for("the slave has its master's log", self._is_replicated)
            if proxy:
                self.proxy = self._start_proxy()
                self.proxy.wait()
        except BaseException:
            self.stop()
            raise

    @property
    def servers(self) -> dict[str, int]:
        return super().servers | ({"proxy": self.proxy.port} if self.proxy else {})

    def alter_topic(
        self,
        topic: str,
        broker: str | None,
        read_queue_nums: int | None,
        write_queue_nums: int | None,
        perm: int | None,
    ) -> None:
        """On one master or on every one that has it and runs; None leaves a value as it is."""
        for address in self.addresses([broker] if broker else sorted(self.operator.brokers_of(topic))):
            was = self.operator.topic_config(address, topic)
            self.operator.put_topic(
                [address],
                topic,
                int(was.getReadQueueNums()) if read_queue_nums is None else read_queue_nums,
                int(was.getWriteQueueNums()) if write_queue_nums is None else write_queue_nums,
                int(was.getPerm()) if perm is None else perm,
                order=bool(was.isOrder()),
            )

    def start_name_server(self, number: int) -> None:
        """Return when every broker that runs is registered there."""
        was = self.name_servers[number]
        if not was.is_alive():
            folder = self.folder / f"name-server-{number}-{time.monotonic_ns()}"
            self.name_servers[number] = start_name_server(self.jars, folder, was.port)
        self.name_servers[number].wait()
        running = [name for name, broker in self.brokers.items() if broker.is_alive()]
        wait_for("every broker is registered", lambda: all(map(self.is_registered, running)))

    def stop(self) -> None:
        if self.proxy:
            self.proxy.kill()
        super().stop()

    def _start_proxy(self) -> Server:
        """Start the 5.x proxy in cluster mode. It names the port of the client's link."""
        port, remoting_port = free_port(), free_port()
        config = self.folder / "proxy.json"
        config.write_text(
            json.dumps(
                {
                    "rocketMQClusterName": CLUSTER,
                    "namesrvAddr": self.name_server,
                    "proxyMode": "CLUSTER",
                    "grpcServerPort": port,
                    "remotingListenPort": remoting_port,
                    "useEndpointPortFromRequest": True,
                    "localServeAddr": "127.0.0.1",
                    "grpcThreadPoolNums": 8,
                }
            )
        )
        return Server(self.jars, self.folder / "proxy", port, [PROXY, "-pc", str(config)], "256m", jar_set="proxy")

    def _is_replicated(self) -> bool:
        """Whether the slave has acknowledged all that broker-a has."""
        end, acknowledged = self.operator.ha_offsets(self.brokers["broker-a"].address)
        return acknowledged == [end]
