"""Real RocketMQ for the tests: a NameServer, brokers and consumers, each in a process of its own.

Consumers live in one JVM each, as in production: two of them with one `instance_name` on one host carry one
ClientId, which is how twins are born. Everything is started, waited for and ended by pid, with its files in one
folder that is deleted.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from streaming.ingest.embedded_kafka import free_port
from streaming.ingest.rocketmq_jvm import RocketMQError, RocketMQJvm, jvm_options
from streaming.jars import java

CLUSTER = "DefaultCluster"
START_SECONDS = 60.0
STOP_SECONDS = 10.0
TOOL_SECONDS = 60.0

Answer = TypeVar("Answer")


def wait_for(what: str, ask: Callable[[], Answer | None], seconds: float = START_SECONDS) -> Answer:
    """The first answer of `ask` that is true. Fails with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.1)


class Server:
    """A RocketMQ server process: NameServer or broker."""

    def __init__(self, jars: Path, folder: Path, port: int, main: list[str], heap: str) -> None:
        """Start it; `wait` returns when it listens on `port`."""
        folder.mkdir(parents=True)
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self._log = folder / "server.log"
        self._name = main[0]
        command = [java(), *jvm_options(jars, folder, heap, "WARN"), "-XX:MaxDirectMemorySize=128m"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *main],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=folder,
                env={**os.environ, "ROCKETMQ_HOME": str(folder)},
            )

    def wait(self) -> None:
        wait_for(f"{self._name} listens; see {self._log}", self._listens)

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """SIGTERM, then SIGKILL. Safe to call twice."""
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL: the machine is gone, nobody says good-bye."""
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
        with socket.socket() as probe:
            probe.settimeout(0.5)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Consumer:
    """A DefaultLitePullConsumer in a JVM of its own, subscribed to every tag of `topic`."""

    def __init__(
        self,
        jars: Path,
        name_server: str,
        *,
        group: str,
        topic: str,
        instance_name: str,
        heartbeat_ms: int = 3_000,
        strategy: str | None = None,
    ) -> None:
        """Start it. `heartbeat_ms` is heartbeatBrokerInterval (30 s in production); `strategy` names a class of
        org.apache.rocketmq.client.consumer.rebalance, AllocateMessageQueueAveragely without it.
        """
        self.jvm = RocketMQJvm(jars, heap="96m")
        rocketmq = self.jvm.java.org.apache.rocketmq
        try:
            self._consumer = rocketmq.client.consumer.DefaultLitePullConsumer(group)
            self._consumer.setNamesrvAddr(name_server)
            self._consumer.setInstanceName(instance_name)
            self._consumer.setClientIP("127.0.0.1")
            self._consumer.setHeartbeatBrokerInterval(heartbeat_ms)
            self._consumer.setPollNameServerInterval(heartbeat_ms)
            if strategy:
                self._consumer.setAllocateMessageQueueStrategy(getattr(rocketmq.client.consumer.rebalance, strategy)())
            self.client_id = f"127.0.0.1@{instance_name}@STREAM"
            self.jvm.call(self._consumer.subscribe, topic, "*")
            self.jvm.call(self._consumer.start)
        except BaseException:
            self.jvm.close()
            raise

    @property
    def pid(self) -> int:
        return self.jvm.pid

    def queues(self) -> list[str]:
        """`broker:queue_id` of the queues it holds, sorted."""
        return sorted(f"{mq.getBrokerName()}:{mq.getQueueId()}" for mq in self.jvm.call(self._consumer.assignment))

    def poll(self, timeout_ms: int = 1_000) -> int:
        """How many messages one poll returned; they are committed on the client's own schedule."""
        return len(self.jvm.call(self._consumer.poll, timeout_ms))

    def freeze(self) -> None:
        """SIGSTOP: connections stay, nothing is said."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """A clean shutdown: UNREGISTER_CLIENT to every broker."""
        if self.jvm.is_alive():
            with contextlib.suppress(RocketMQError):
                self.jvm.call(self._consumer.shutdown)
        self.jvm.close()

    def kill(self) -> None:
        """SIGKILL: the kernel closes its connections."""
        os.kill(self.pid, signal.SIGKILL)
        self.jvm.close()


class RocketMQ:
    """A NameServer and its brokers, one cluster. `name_server` is its address."""

    def __init__(self, jars: Path, folder: Path, brokers: int = 2) -> None:
        self.jars = jars
        self.folder = folder
        self.brokers: dict[str, Server] = {}
        self._consumers: list[Consumer] = []
        self._admin: RocketMQJvm | None = None
        try:
            port = free_port()
            config = folder / "namesrv.properties"
            config.write_text(f"listenPort={port}\n")
            main = ["org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(config)]
            self.namesrv = Server(jars, folder / "namesrv", port, main, "128m")
            self.namesrv.wait()
            self.name_server = self.namesrv.address
            for letter in "abcdefgh"[:brokers]:
                self.start_broker(f"broker-{letter}")
            for server in self.brokers.values():
                server.wait()
            self._admin = RocketMQJvm(jars)
            self._ext = self._admin.java.org.apache.rocketmq.tools.admin.DefaultMQAdminExt(10_000)
            self._ext.setNamesrvAddr(self.name_server)
            self._admin.call(self._ext.start)
            wait_for("every broker is registered", lambda: self._registered() == set(self.brokers))
        except BaseException:
            self.stop()
            raise

    def start_broker(self, broker_name: str) -> Server:
        """Start a broker, or start it again with the data it had."""
        port = self.brokers[broker_name].port if broker_name in self.brokers else _broker_port()
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
        }
        config = self.folder / f"{broker_name}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        main = ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(config)]
        self.brokers[broker_name] = Server(self.jars, folder, port, main, "384m")
        return self.brokers[broker_name]

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create `topic` with `queues` read and write queues on every broker; return when its route has them all."""
        assert self._admin
        for broker in self.brokers.values():
            config = self._admin.java.org.apache.rocketmq.common.TopicConfig(topic, queues, queues, 6)
            self._admin.call(self._ext.createAndUpdateTopicConfig, broker.address, config)
        wait_for(f"the route of {topic}", lambda: self._brokers_of(topic) == set(self.brokers))

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

    def start_consumer(self, group: str, topic: str, instance_name: str, **options: Any) -> Consumer:
        """Start a Consumer; it is ended with the cluster if the test does not end it."""
        consumer = Consumer(
            self.jars, self.name_server, group=group, topic=topic, instance_name=instance_name, **options
        )
        self._consumers.append(consumer)
        return consumer

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
        for consumer in self._consumers:
            consumer.jvm.close()
        if self._admin:
            self._admin.close()
        for server in [*self.brokers.values(), *([self.namesrv] if hasattr(self, "namesrv") else [])]:
            server.kill()

    def _registered(self) -> set[str]:
        assert self._admin
        return set(self._admin.call(self._ext.examineBrokerClusterInfo).getBrokerAddrTable())

    def _brokers_of(self, topic: str) -> set[str]:
        assert self._admin
        try:
            route = self._admin.call(self._ext.examineTopicRouteInfo, topic)
        except RocketMQError:
            return set()
        return {queue_data.getBrokerName() for queue_data in route.getQueueDatas()}


@contextlib.contextmanager
def rocketmq(jars: Path, brokers: int = 2) -> Iterator[RocketMQ]:
    """A RocketMQ cluster whose files are deleted when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="balancewatch-rocketmq-test-"))
    try:
        cluster = RocketMQ(jars, folder, brokers)
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _broker_port() -> int:
    """A port whose neighbours are free too: a broker also listens on port + 1 (HA) and port - 2 (VIP channel)."""
    while True:
        port = free_port()
        with contextlib.ExitStack() as held:
            try:
                for offset in (-2, 0, 1):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port + offset))
            except OSError:
                continue
            return port
