"""Real RocketMQ for the tests: a NameServer, brokers and consumers, each in a process of its own.

A run has one cluster (`rocketmq_cluster`), whose tests form the group "rocketmq" and take topics and groups of their
own. What a test starts it ends, and a broker that it kills it starts again. Everything is started, waited for and ended
by pid, with its files in one folder that is deleted.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.ingest.embedded_kafka import free_port
from streaming.ingest.rocketmq_jvm import RocketMQError, RocketMQJvm, jvm_options
from streaming.jars import java
from tests.rocketmq_clocks import Clocks
from tests.rocketmq_consumer import Consumer
from tests.rocketmq_server import Server, broker_port, wait_for

CLUSTER = "DefaultCluster"
SCALED = Clocks(4)
TOOL_SECONDS = 60.0


class RocketMQ:
    """A NameServer and its brokers, one cluster; `topics` were created here and not deleted.

    `clocks` are those of its brokers, and of a consumer that is not given others.
    """

    def __init__(self, jars: Path, folder: Path, clocks: Clocks, brokers: int = 2) -> None:
        self.jars, self.folder, self.clocks = jars, folder, clocks
        self.brokers: dict[str, Server] = {}
        self.topics: set[str] = set()
        self._admin: RocketMQJvm | None = None
        try:
            port = free_port()
            config = folder / "namesrv.properties"
            config.write_text(f"listenPort={port}\n")
            main = ["org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(config)]
            self.namesrv = Server(jars, folder / "namesrv", port, main, "128m")
            self._admin = RocketMQJvm(jars)
            self.namesrv.wait()
            self.name_server = self.namesrv.address
            for letter in "abcdefgh"[:brokers]:
                self.start_broker(f"broker-{letter}")
            self._ext = self._admin.java.org.apache.rocketmq.tools.admin.DefaultMQAdminExt(10_000)
            self._ext.setNamesrvAddr(self.name_server)
            self._admin.call(self._ext.start)
            self.wait_for_brokers()
        except BaseException:
            self.stop()
            raise

    def start_broker(self, broker_name: str) -> Server:
        """Start a broker, or start it again with the data it had; `wait_for_brokers` returns when it is there."""
        port = self.brokers[broker_name].port if broker_name in self.brokers else broker_port()
        folder = self.folder / f"{broker_name}-{time.monotonic_ns()}"
        lines = {
            "brokerClusterName": CLUSTER,
            "brokerName": broker_name,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "haListenPort": port + 1,
            "namesrvAddr": self.name_server,
            "storePathRootDir": self.folder / "store" / broker_name,
            "storePathCommitLog": self.folder / "store" / broker_name / "commitlog",
            "autoCreateTopicEnable": "true",
            "autoCreateSubscriptionGroup": "true",
            "mappedFileSizeCommitLog": 16 << 20,
            "mapedFileSizeCommitLog": 16 << 20,
            "mappedFileSizeConsumeQueue": 20 * 3000,
            "mapedFileSizeConsumeQueue": 20 * 3000,
            "maxIndexNum": 4000,
            "maxHashSlotNum": 1000,
            "diskMaxUsedSpaceRatio": 99,
            "registerNameServerPeriod": 10_000,
            "transactionMetricFlushInterval": 200,  # a service that spins for so long after the start
            "timerFlushIntervalMs": 60_000,  # a seventh of a core for a wheel of delayed messages that nobody sends
            **self.clocks.broker_config(),
        }
        config = self.folder / f"{broker_name}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        main = ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(config)]
        self.brokers[broker_name] = Server(self.jars, folder, port, main, "384m")
        return self.brokers[broker_name]

    def wait_for_brokers(self) -> None:
        """Return when every broker listens and the NameServer knows it."""
        for server in self.brokers.values():
            server.wait()
        wait_for("every broker is registered", self._are_registered)

    def set_clocks(self, clocks: Clocks) -> None:
        """`clocks` are those of the brokers from now on, and of consumers that are started from now on."""
        for broker_name in self.brokers:
            self._update_config(broker_name, clocks.broker_config())
        self.clocks = clocks

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create `topic` with `queues` read and write queues on every broker; return when its route has them all."""
        assert self._admin
        for broker in self.brokers.values():
            config = self._admin.java.org.apache.rocketmq.common.TopicConfig(topic, queues, queues, 6)
            self._admin.call(self._ext.createAndUpdateTopicConfig, broker.address, config)
        wait_for(f"the route of {topic}", lambda: self._brokers_of(topic) == set(self.brokers))
        self.topics.add(topic)

    def delete_topic(self, topic: str) -> None:
        """Delete `topic` on every broker and at the NameServer."""
        assert self._admin
        addresses = self._admin.java.java.util.HashSet()
        for broker in self.brokers.values():
            addresses.add(broker.address)
        self._admin.call(self._ext.deleteTopicInBroker, addresses, topic)
        name_servers = self._admin.java.java.util.HashSet()
        name_servers.add(self.name_server)
        self._admin.call(self._ext.deleteTopicInNameServer, name_servers, topic)
        self.topics.discard(topic)

    def set_consume_enable(self, group: str, broker_name: str, enabled: bool) -> None:
        """consumeEnable of a group's SubscriptionGroupConfig at one broker: whether its pulls are served."""
        assert self._admin
        address = self.brokers[broker_name].address
        config = self._admin.call(self._ext.examineSubscriptionGroupConfig, address, group)
        config.setConsumeEnable(enabled)
        self._admin.call(self._ext.createAndUpdateSubscriptionGroupConfig, address, config)

    def create_group(self, group: str) -> None:
        """Give every broker a configuration of the group."""
        assert self._admin
        config = self._admin.java.org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig()
        config.setGroupName(group)
        for broker in self.brokers.values():
            self._admin.call(self._ext.createAndUpdateSubscriptionGroupConfig, broker.address, config)

    def delete_group(self, group: str) -> None:
        """Delete the group's configuration on every broker, as mqadmin deleteSubGroup does."""
        assert self._admin
        for broker in self.brokers.values():
            self._admin.call(self._ext.deleteSubscriptionGroup, broker.address, group, True)

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
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix="mqadmin-"))
        command = [java(), *jvm_options(self.jars, folder, "128m")]
        said = subprocess.run(
            [*command, "org.apache.rocketmq.tools.command.MQAdminStartup", *arguments, "-n", self.name_server],
            capture_output=True,
            text=True,
            timeout=TOOL_SECONDS,
            check=False,
            cwd=folder,
            env={**os.environ, "ROCKETMQ_HOME": str(folder)},
        )
        return said.stdout

    def consumer_status(self, group: str) -> str:
        """What RocketMQ's own check says of a group: `mqadmin consumerStatus`."""
        return self.mqadmin("consumerStatus", "-g", group)

    def stop(self) -> None:
        """End every process that was started here; the data is thrown away, so nobody is asked to save it."""
        if self._admin:
            self._admin.close()
        for server in [*self.brokers.values(), *([self.namesrv] if hasattr(self, "namesrv") else [])]:
            server.kill()

    def _are_registered(self) -> bool:
        """Whether the NameServer knows every broker; one that it does not know is made to register.

        The first time a broker registers it has no connection to a NameServer yet. It tries again 10 s later, or at
        once when its permission is set.
        """
        assert self._admin
        known = set(self._admin.call(self._ext.examineBrokerClusterInfo).getBrokerAddrTable())
        for broker_name in self.brokers.keys() - known:
            self._update_config(broker_name, {"brokerPermission": "6"})
        return known == self.brokers.keys()

    def _update_config(self, broker_name: str, config: Mapping[str, str]) -> None:
        assert self._admin
        properties = self._admin.java.java.util.Properties()
        for key, value in config.items():
            properties.setProperty(key, value)
        self._admin.call(self._ext.updateBrokerConfig, self.brokers[broker_name].address, properties)

    def _brokers_of(self, topic: str) -> set[str]:
        assert self._admin
        try:
            route = self._admin.call(self._ext.examineTopicRouteInfo, topic)
        except RocketMQError:
            return set()
        return {queue_data.getBrokerName() for queue_data in route.getQueueDatas()}


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
