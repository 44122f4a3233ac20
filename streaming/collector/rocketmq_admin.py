"""RocketMQ's own admin client, DefaultMQAdminExt of 5.5.0, driven in a JVM.

The official client brings ACL, TLS and every release's wire format. Answers are the dataclasses of rocketmq_answers. A
broker answers requests in the threads that serve its clients, so the request rate is limited per server.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from conf.settings import Collector
from streaming.collector.access import is_refused, set_up_tls, without_keys
from streaming.collector.known_brokers import CollectorError
from streaming.collector.rocketmq_answers import (
    Broker,
    Connection,
    ConsumerConnection,
    OffsetWrapper,
    RunningInfo,
    TopicRoute,
    parse_clusters,
    parse_consumer_connection,
    parse_offsets,
    parse_producers,
    parse_route,
    parse_running_info,
    parse_version,
)
from streaming.collector.rocketmq_jvm import UNREADABLE, RocketMQError, RocketMQJvm

Parsed = TypeVar("Parsed")

BURST_SECONDS = 0.1
"""Size of a burst to an idle server, as the time in which it would be allowed."""


class RequestRate:
    """A limit of `per_second` requests for each server. Threads wait in order of their calls."""

    def __init__(self, per_second: float) -> None:
        self._gap = 1 / per_second
        self._next_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        self._held_back: Counter[str] = Counter()

    def wait(self, server: str) -> None:
        """Return when the next request to `server` is allowed."""
        with self._lock:
            now = time.monotonic()
            at = max(self._next_at.get(server, 0.0), now - BURST_SECONDS)
            self._next_at[server] = at + self._gap
            self._asked[server] += 1
            if at > now:
                self._held_back[server] += 1
        if at > now:
            time.sleep(at - now)

    def take_counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the requests per server since the last call, and how many of them waited."""
        with self._lock:
            counts = dict(self._asked), dict(self._held_back)
            self._asked.clear()
            self._held_back.clear()
        return counts


REQUEST_CODE_NOT_SUPPORTED = 3
TOPIC_NOT_EXIST = 17
CONSUMER_NOT_ONLINE = 206
"""ResponseCode of RocketMQ: a group without a connected consumer at the broker asked."""

READ_AND_WRITE = 6


@contextlib.contextmanager
def none_for(response_code: int) -> Iterator[None]:
    """End the block at a RocketMQError with this code."""
    try:
        yield
    except RocketMQError as error:
        if error.response_code != response_code:
            raise


NAME_SERVER = "name server"
"""The server under which requests to any NameServer are counted."""

KEEP_CHANNEL = "-Dcom.rocketmq.remoting.client.closeSocketIfTimeout=false"
"""A consumer's timeout must not fail other requests on the one channel to its broker."""


PROXY_TOPIC = "DefaultHeartBeatSyncerTopic"
"""The topic by which 5.x proxies exchange their clients (ProxyConfig.heartbeatSyncerTopicName). RocketMQ's own checks
of system names know neither it nor the group that broadcasts it."""


class RocketMQAdmin:
    """A started DefaultMQAdminExt, usable by all threads. Every method may raise RocketMQError."""

    def __init__(self, settings: Collector, jars: Path) -> None:
        """Start the JVM and the client. Raises RocketMQError if either does not start."""
        self._timeout_ms = settings.timeout_ms
        self._name_server = settings.name_server
        self._settings = settings
        self._producer: Any = None
        self.rate = RequestRate(settings.requests_per_second)
        self.jvm = RocketMQJvm(
            jars, heap=settings.jvm_memory, read_seconds=settings.timeout_ms / 1000 * 3 + 10, options=[KEEP_CHANNEL]
        )
        try:
            set_up_tls(self.jvm, settings)
            self._rocketmq = self.jvm.java.org.apache.rocketmq
            self._ext: Any = self._rocketmq.tools.admin.DefaultMQAdminExt(*self._hook(), self._timeout_ms)
            self._ext.setNamesrvAddr(self._name_server)
            self._ext.setUseTLS(settings.tls)
            self.jvm.call(self._ext.start)
            self._api = self._ext.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl()
            self.client_version = self.read_version(self._rocketmq.common.MQVersion.CURRENT_VERSION)
            self.client_ids: frozenset[str] = frozenset([self._ext.buildMQClientId()])
        except BaseException:
            self.jvm.close()
            raise

    def read_clusters(self) -> dict[str, tuple[Broker, ...]]:
        return self._ask(NAME_SERVER, parse_clusters, self._ext.examineBrokerClusterInfo)

    def ask_name_server(self, name_server: str) -> None:
        """Ask this NameServer, without the client's failover. Raises RocketMQError without an answer."""
        protocol = self._rocketmq.remoting.protocol
        request = protocol.RemotingCommand.createRequestCommand(protocol.RequestCode.GET_BROKER_CLUSTER_INFO, None)
        self.rate.wait(name_server)
        self._call(self._api.getRemotingClient().invokeSync, name_server, request, self._timeout_ms)

    def read_topics(self) -> list[str]:
        """Return the topics, without system, retry, dead letter and light topics."""
        names = self._ask(NAME_SERVER, lambda answer: answer["topicList"], self._ext.fetchAllTopicList)
        clusters = self._ask(NAME_SERVER, dict, self._ext.examineBrokerClusterInfo)
        own = {*clusters.get("brokerAddrTable", {}), *clusters.get("clusterAddrTable", {})}
        own |= {f"{cluster}_REPLY_TOPIC" for cluster in clusters.get("clusterAddrTable", {})}
        return sorted(name for name in names if name not in own and not self._is_system_topic(name))

    def read_route(self, topic: str) -> TopicRoute | None:
        """Return a topic's route; None if it does not exist."""
        with none_for(TOPIC_NOT_EXIST):
            return self._ask(NAME_SERVER, partial(parse_route, topic), self._ext.examineTopicRouteInfo, topic)
        return None

    def read_groups(self, broker: Broker) -> dict[str, bool]:
        """Return consumeEnable of each consumer group at a broker, without system groups."""

        def parse(wrapper: Any) -> dict[str, bool]:
            configs = sorted(wrapper.get("subscriptionGroupTable", {}).items())
            return {name: config["consumeEnable"] for name, config in configs if not self._is_system_group(name)}

        ask = self._ext.getAllSubscriptionGroup
        return self._ask(broker.address, parse, ask, broker.address, self._timeout_ms)

    def read_consumer_connection(self, broker: Broker, group: str) -> ConsumerConnection | None:
        """Return the group as *this* broker sees it; None if no consumer of it is connected there."""
        parse = partial(parse_consumer_connection, group, versions=self.read_version)
        with none_for(CONSUMER_NOT_ONLINE):
            return self._ask(broker.address, parse, self._ext.examineConsumerConnectionInfo, group, broker.address)
        return None

    def read_producers(self, broker: Broker) -> dict[str, tuple[Connection, ...]] | None:
        """Return each producer group's channels with their last heartbeats; None from a broker without code 328."""
        parse = partial(parse_producers, versions=self.read_version)
        with none_for(REQUEST_CODE_NOT_SUPPORTED):
            return self._ask(broker.address, parse, self._ext.getAllProducerInfo, broker.address)
        return None

    def read_running_info(self, broker: Broker, group: str, client_id: str) -> RunningInfo:
        """Return a client's running info through this broker, which asks its first channel of that ClientId."""
        address, ask = broker.address, self._api.getConsumerRunningInfo
        return self._ask(address, parse_running_info, ask, address, group, client_id, False, self._timeout_ms)

    def read_offsets(self, broker: Broker, group: str) -> dict[tuple[str, str, int], OffsetWrapper]:
        """Return the group's offsets at this broker by (topic, broker_name, queue_id)."""
        ask = self._ext.examineConsumeStats
        return self._ask(broker.address, parse_offsets, ask, broker.address, group, None, self._timeout_ms)

    @lru_cache(maxsize=1024)  # noqa: B019  # an admin lives as long as its collector
    def read_version(self, version: int) -> str:
        """Return the release of an MQVersion ordinal."""
        return parse_version(str(self.jvm.call(self._rocketmq.common.MQVersion.getVersionDesc, version)))

    def start_producer(self, group: str) -> str:
        """Start the producer of `send`, once; return its ClientId."""
        if self._producer is None:
            producer = self._rocketmq.client.producer.DefaultMQProducer(group, *self._hook())
            producer.setNamesrvAddr(self._name_server)
            producer.setUseTLS(self._settings.tls)
            producer.setSendMsgTimeout(self._timeout_ms)
            self.jvm.call(producer.start)
            self._producer = producer
            self.client_ids |= {producer.buildMQClientId()}
        return str(self._producer.buildMQClientId())

    def prepare_send(self, broker: Broker, topic: str) -> bool:
        """Create `topic` with one queue on this broker; return whether the producer has a route to it.

        A producer polls routes every 30 s; until then a send fails without reaching any broker.
        """
        config = self._rocketmq.common.TopicConfig(topic, 1, 1, READ_AND_WRITE)
        self.rate.wait(broker.address)
        try:
            self._call(self._ext.createAndUpdateTopicConfig, broker.address, config)
        except RocketMQError as error:
            if not is_refused(error):
                raise  # without the permission to create it, an operator's topic may exist
        client = self._producer.getDefaultMQProducerImpl().getMqClientFactory()
        self.jvm.call(client.updateTopicRouteInfoFromNameServer, topic)
        return self.jvm.call(client.findBrokerAddressInPublish, broker.broker_name) is not None

    def send(self, broker_name: str, topic: str, body: bytes) -> tuple[str, float]:
        """Send a message to queue 0 of a broker, after start_producer; return its SendStatus and its seconds."""
        queue = self._rocketmq.common.message.MessageQueue(topic, broker_name, 0)
        message = self._rocketmq.common.message.Message(topic, body)
        self.rate.wait(broker_name)
        started = time.perf_counter()
        result = self._call(self._producer.send, message, queue, self._timeout_ms)
        elapsed = time.perf_counter() - started
        return str(result.getSendStatus().name()), elapsed

    def is_alive(self) -> bool:
        return self.jvm.is_alive()

    def close(self) -> None:
        self.jvm.close()

    def _hook(self) -> tuple[Any, ...]:
        """Return the RPC hook that signs requests; empty without keys, because py4j would pass null as a group name."""
        access_key = self._settings.acl_access_key.get_secret_value()
        secret_key = self._settings.acl_secret_key.get_secret_value()
        if bool(access_key) != bool(secret_key):
            raise CollectorError("collector.acl_access_key and collector.acl_secret_key: set both, or neither")
        if not access_key:
            return ()
        acl = self._rocketmq.acl.common
        return (acl.AclClientRPCHook(acl.SessionCredentials(access_key, secret_key)),)

    def _ask(self, server: str, parse: Callable[[Any], Parsed], method: Any, *arguments: Any) -> Parsed:
        """Return the parsed answer. Raises RocketMQError if it is lost or cannot be parsed: only this request fails."""
        self.rate.wait(server)
        answer = self.jvm.to_json(self._call(method, *arguments))
        try:
            return parse(msgspec.json.decode(answer))
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise RocketMQError(f"the answer of {server} could not be read: {error!r}", UNREADABLE) from error

    def _call(self, method: Any, *arguments: Any) -> Any:
        try:
            return self.jvm.call(method, *arguments)
        except RocketMQError as error:
            message = without_keys(self._settings, str(error))
            raise RocketMQError(message, error.response_code, is_timeout=error.is_timeout) from None

    @lru_cache(maxsize=65_536)  # noqa: B019  # as above
    def _is_system_group(self, name: str) -> bool:
        if name == f"CID_{PROXY_TOPIC}":
            return True
        mix_all = self._rocketmq.common.MixAll
        return bool(self.jvm.call(mix_all.isSysConsumerGroup, name) or self.jvm.call(mix_all.isPredefinedGroup, name))

    @lru_cache(maxsize=65_536)  # noqa: B019  # as above
    def _is_system_topic(self, name: str) -> bool:
        if name == PROXY_TOPIC or name.startswith(("%RETRY%", "%DLQ%", "%LMQ%")):
            return True
        return bool(self.jvm.call(self._rocketmq.common.topic.TopicValidator.isSystemTopic, name))
