"""A consumer of RocketMQ's own client, in a JVM of its own as in production: a test may freeze or kill it."""

import contextlib
import os
import signal
from pathlib import Path

from streaming.collector.rocketmq_jvm import RocketMQError, RocketMQJvm
from tests.support.freezing import freeze
from tests.support.rocketmq_clocks import Clocks


class Consumer:
    """A DefaultLitePullConsumer, subscribed to every tag of `topic`.

    Two of them with one `instance_name` on one host carry one ClientId, which is how twins are born.
    """

    def __init__(
        self, jars: Path, name_server: str, clocks: Clocks, *, group: str, topic: str, instance_name: str
    ) -> None:
        """Start it; it allocates with AllocateMessageQueueAveragely."""
        self.client_id = f"127.0.0.1@{instance_name}@STREAM"
        for tries_left in (2, 1, 0):
            self.jvm = RocketMQJvm(jars, heap="96m", options=clocks.client_options())
            try:
                self._consumer = self.jvm.java.org.apache.rocketmq.client.consumer.DefaultLitePullConsumer(group)
                self._consumer.setNamesrvAddr(name_server)
                self._consumer.setInstanceName(instance_name)
                self._consumer.setClientIP("127.0.0.1")
                self._consumer.setHeartbeatBrokerInterval(clocks.heartbeat_ms)
                self._consumer.setPollNameServerInterval(clocks.route_poll_ms)
                self._consumer.setPersistConsumerOffsetInterval(clocks.persist_ms)
                self.jvm.call(self._consumer.subscribe, topic, "*")
                self.jvm.call(self._consumer.start)
                return
            except BaseException as error:
                self.jvm.close()
                # A client does not repeat its first question to the NameServer, which may fail on a busy machine.
                if not isinstance(error, RocketMQError) or not tries_left:
                    raise

    def queues(self) -> list[str]:
        """`broker:queue_id` of the queues it holds, sorted."""
        return sorted(f"{mq.getBrokerName()}:{mq.getQueueId()}" for mq in self.jvm.call(self._consumer.assignment))

    def freeze(self) -> None:
        """SIGSTOP: connections stay, nothing is said."""
        freeze(self.jvm._process.pid)

    def thaw(self) -> None:
        if self.jvm.is_alive():
            os.kill(self.jvm._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """A clean shutdown: UNREGISTER_CLIENT to every broker."""
        if self.jvm.is_alive():
            with contextlib.suppress(RocketMQError):
                self.jvm.call(self._consumer.shutdown)
        self.jvm.close()

    def close(self) -> None:
        """End the JVM, frozen or not: its connections end with it."""
        self.thaw()
        self.jvm.close()
