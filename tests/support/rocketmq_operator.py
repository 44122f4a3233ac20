"""What an operator does to a cluster: topics, groups and settings by RocketMQ's own admin client, and mqadmin."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from streaming.collector.rocketmq_jvm import RocketMQError, RocketMQJvm, jvm_options
from streaming.spark.jars import java

TOOL_SECONDS = 60.0
ADMIN_MS = 10_000
READ_WRITE = 6


class Operator:
    """DefaultMQAdminExt in a JVM of its own. Threads may use it side by side. Brokers are named by address."""

    def __init__(self, jars: Path, folder: Path, name_server: str, *, options: tuple[str, ...] = ()) -> None:
        """`name_server` may be several, parted by ";"; `folder` is mqadmin's; `options` go to the JVM."""
        self._jars, self._folder, self._name_server = jars, folder, name_server
        self._jvm = RocketMQJvm(jars, options=options)
        self._ext: Any = None
        self._ext_by_name_server: dict[str, Any] = {}

    def start(self, access: tuple[str, str] | None = None) -> None:
        """Return when the admin client has started. `access` is an ACL's access key and secret key."""
        self._ext = self._started(self._name_server, access)
        for address in self._name_server.split(";"):
            self._ext_by_name_server[address] = self._started(address, access)

    def close(self) -> None:
        """End the JVM. Safe to call twice."""
        self._jvm.close()

    def registered(self, name_server: str) -> dict[str, set[int]]:
        """broker_name to the broker ids that one NameServer knows."""
        ext = self._ext_by_name_server[name_server]
        table = self._jvm.call(ext.examineBrokerClusterInfo).getBrokerAddrTable()
        return {str(name): {int(number) for number in table[name].getBrokerAddrs()} for name in table}

    def update_config(self, broker: str, config: Mapping[str, str]) -> None:
        """Lines of a running broker's configuration."""
        properties = self._jvm.java.java.util.Properties()
        for key, value in config.items():
            properties.setProperty(key, value)
        self._jvm.call(self._ext.updateBrokerConfig, broker, properties)

    def put_topic(
        self, brokers: Iterable[str], topic: str, read: int, write: int, perm: int = READ_WRITE, *, order: bool = False
    ) -> None:
        """Create the topic there, or alter it: its read and write queue numbers and its permission."""
        for broker in brokers:
            config = self._jvm.java.org.apache.rocketmq.common.TopicConfig(topic, read, write, perm)
            config.setOrder(order)
            self._jvm.call(self._ext.createAndUpdateTopicConfig, broker, config)

    def topic_config(self, broker: str, topic: str) -> Any:
        """TopicConfig of one broker."""
        return self._jvm.call(self._ext.examineTopicConfig, broker, topic)

    def brokers_of(self, topic: str) -> set[str]:
        """Broker names of the topic's route; none where there is none."""
        try:
            route = self._jvm.call(self._ext.examineTopicRouteInfo, topic)
        except RocketMQError:
            return set()
        return {str(queue_data.getBrokerName()) for queue_data in route.getQueueDatas()}

    def delete_topic(self, brokers: Iterable[str], topic: str) -> None:
        """On the brokers, and at every NameServer."""
        self._jvm.call(self._ext.deleteTopicInBroker, set(brokers), topic)
        self._jvm.call(self._ext.deleteTopicInNameServer, set(self._name_server.split(";")), topic)

    def put_group(self, brokers: Iterable[str], group: str) -> None:
        """A SubscriptionGroupConfig of the group."""
        config = self._jvm.java.org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig()
        config.setGroupName(group)
        for broker in brokers:
            self._jvm.call(self._ext.createAndUpdateSubscriptionGroupConfig, broker, config)

    def set_consume_enable(self, broker: str, group: str, enabled: bool) -> None:
        """consumeEnable of the group's SubscriptionGroupConfig at one broker: whether its pulls are served."""
        config = self._jvm.call(self._ext.examineSubscriptionGroupConfig, broker, group)
        config.setConsumeEnable(enabled)
        self._jvm.call(self._ext.createAndUpdateSubscriptionGroupConfig, broker, config)

    def delete_group(self, brokers: Iterable[str], group: str) -> None:
        """Its configuration and its offsets, as mqadmin deleteSubGroup -r does."""
        for broker in brokers:
            self._jvm.call(self._ext.deleteSubscriptionGroup, broker, group, True)

    def set_pop(self, broker: str, topic: str, group: str, share: int = 0) -> None:
        """POP is the group's message request mode of the topic; `share` 0 gives every queue to every client."""
        mode = self._jvm.java.org.apache.rocketmq.common.message.MessageRequestMode.POP
        self._jvm.call(self._ext.setMessageRequestMode, broker, topic, group, mode, share, 3_000)

    def members(self, broker: str, group: str) -> list[str]:
        """ClientIds of the group at one broker."""
        with contextlib.suppress(RocketMQError):  # none
            return [str(one) for one in self._jvm.call(self._api.getConsumerIdListByGroup, broker, group, ADMIN_MS)]
        return []

    def lock(self, broker: str, group: str, client_id: str, queues: Iterable[tuple[str, str, int]]) -> int:
        """As a client with that ClientId does it; return how many of the queues it holds now."""
        body = self._locks("LockBatchRequestBody", group, client_id, queues)
        return len(self._jvm.call(self._api.lockBatchMQ, broker, body, ADMIN_MS))

    def unlock(self, broker: str, group: str, client_id: str, queues: Iterable[tuple[str, str, int]]) -> None:
        """A broker does not ask who says so."""
        body = self._locks("UnlockBatchRequestBody", group, client_id, queues)
        self._jvm.call(self._api.unlockBatchMQ, broker, body, ADMIN_MS, False)

    def ha_offsets(self, master: str) -> tuple[int, list[int]]:
        """The master's commit log end, and how far each slave's is acknowledged."""
        info = self._jvm.call(self._ext.getBrokerHAStatus, master)
        return int(info.getMasterCommitLogMaxOffset()), [
            int(slave.getSlaveAckOffset()) for slave in info.getHaConnectionInfo()
        ]

    def mqadmin(self, *arguments: str) -> str:
        """What `mqadmin ARGUMENTS -n NAME_SERVER` prints."""
        folder = Path(tempfile.mkdtemp(dir=self._folder, prefix="mqadmin-"))
        command = [java(), *jvm_options(self._jars, folder, "128m")]
        said = subprocess.run(
            [*command, "org.apache.rocketmq.tools.command.MQAdminStartup", *arguments, "-n", self._name_server],
            capture_output=True,
            text=True,
            timeout=TOOL_SECONDS,
            check=False,
            cwd=folder,
            env={**os.environ, "ROCKETMQ_HOME": str(folder)},
        )
        return said.stdout

    @property
    def _api(self) -> Any:
        return self._ext.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl()

    def _locks(self, name: str, group: str, client_id: str, queues: Iterable[tuple[str, str, int]]) -> Any:
        java_org = self._jvm.java.org.apache.rocketmq
        body = getattr(java_org.remoting.protocol.body, name)()
        body.setConsumerGroup(group)
        body.setClientId(client_id)
        body.setMqSet({java_org.common.message.MessageQueue(*queue) for queue in queues})
        return body

    def _started(self, name_server: str, access: tuple[str, str] | None) -> Any:
        java_org = self._jvm.java.org.apache.rocketmq
        if access:
            credentials = java_org.acl.common.SessionCredentials(*access)
            hook = java_org.acl.common.AclClientRPCHook(credentials)
            ext = java_org.tools.admin.DefaultMQAdminExt(hook, ADMIN_MS)
        else:
            ext = java_org.tools.admin.DefaultMQAdminExt(ADMIN_MS)
        ext.setNamesrvAddr(name_server)
        self._jvm.call(ext.start)
        return ext
