"""One round's questions to RocketMQ: to the NameServer, to each broker for itself, through brokers to the clients.

Brokers are asked side by side, so one that hangs costs the round its timeout once. The first question a broker
does not answer ends its part of the round: half a view would look like clients that left.
"""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

import structlog

from conf.settings import Collector
from streaming.ingest.reading import BrokerReading, Latency, QueueKey, Reading
from streaming.ingest.rocketmq_answers import (
    Broker,
    Connection,
    ConsumerConnection,
    OffsetWrapper,
    RunningInfo,
    TopicRoute,
)
from streaming.ingest.rocketmq_jvm import RocketMQError
from streaming.ingest.running_reader import RunningReader

THREADS = 8
FORGET_BROKER_SECONDS = 600.0

log = structlog.get_logger()
Answer = TypeVar("Answer")


class CollectorError(RuntimeError):
    """The collector cannot work with these settings. The message names the key and what to change."""


class Admin(Protocol):
    """What a round asks of RocketMQ; RocketMQAdmin answers it."""

    client_version: str

    @property
    def client_ids(self) -> frozenset[str]: ...
    def read_clusters(self) -> dict[str, tuple[Broker, ...]]: ...
    def read_topics(self) -> list[str]: ...
    def read_route(self, topic: str) -> TopicRoute | None: ...
    def read_groups(self, broker: Broker) -> dict[str, bool]: ...
    def read_consumer_connection(self, broker: Broker, group: str) -> ConsumerConnection | None: ...
    def read_producers(self, broker: Broker) -> dict[str, tuple[Connection, ...]]: ...
    def read_running_info(self, broker: Broker, group: str, client_id: str) -> RunningInfo: ...
    def read_offsets(self, broker: Broker, group: str) -> dict[QueueKey, OffsetWrapper]: ...
    def start_producer(self, group: str) -> str: ...
    def prepare_send(self, broker: Broker, topic: str) -> bool: ...
    def send(self, broker_name: str, topic: str, body: bytes) -> tuple[str, float]: ...


class RoundReader:
    """Reads rounds. Remembers which brokers there are, which were silent, and whether there is a NameServer."""

    def __init__(self, settings: Collector, admin: Admin) -> None:
        self._settings = settings
        self._admin = admin
        self._cluster = settings.cluster
        self._brokers: dict[str, Broker] = {}
        self._last_registered: dict[str, float] = {}
        self._silent: set[str] = set()
        self._has_name_server = True
        self._probed: set[str] = set()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collector")
        self._running = RunningReader(admin, self._pool)

    def read(self) -> Reading:
        """One round. Raises RocketMQError when there is no broker to ask, CollectorError for a wrong cluster."""
        registered = self._read_registered()
        parts = {broker.broker_name: self._pool.submit(self._read_broker, broker) for broker in self._brokers.values()}
        views = {name: view for name, part in parts.items() if (view := part.result())}
        self._tell_silence(views.keys())
        probes = self._start_probes() if self._settings.probe else []
        topics, routes = self._read_routes() if registered is not None else (None, ())
        running = self._running.read(views)
        offsets = self._read_offsets(views)
        latencies = tuple(latency for probe in probes if (latency := probe.result()))
        return Reading(
            cluster=self._cluster,
            brokers_asked=tuple(sorted(self._brokers)),
            brokers=views,
            registered=registered,
            topics=topics,
            routes=routes,
            running=running,
            offsets=offsets,
            latencies=latencies,
            own_client_ids=self._admin.client_ids,
        )

    def close(self) -> None:
        """Let the threads go; calls under way end with the admin's JVM."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read_registered(self) -> frozenset[str] | None:
        """Names of the brokers at the NameServer; None when it does not answer and brokers are known from before."""
        try:
            clusters = self._admin.read_clusters()
        except RocketMQError as error:
            if not self._brokers:
                raise
            if self._has_name_server:
                log.warning("the NameServer does not answer", name_server=self._settings.name_server, error=str(error))
            self._has_name_server = False
            return None
        if not self._has_name_server:
            log.info("the NameServer answers again", name_server=self._settings.name_server)
        self._has_name_server = True
        self._learn_brokers(clusters)
        return frozenset(broker.broker_name for brokers in clusters.values() for broker in brokers)

    def _learn_brokers(self, clusters: Mapping[str, tuple[Broker, ...]]) -> None:
        """Those registered now, and those that were within FORGET_BROKER_SECONDS: a dead broker is still asked for."""
        now = time.monotonic()
        if clusters:
            self._cluster, brokers = pick_cluster(clusters, self._settings.cluster)
            for broker in brokers:
                self._brokers[broker.broker_name] = broker
                self._last_registered[broker.broker_name] = now
        if not self._brokers:
            raise RocketMQError(f"no broker is registered at {self._settings.name_server}")
        for name, at in list(self._last_registered.items()):
            if now - at > FORGET_BROKER_SECONDS:
                log.info("the broker is forgotten", broker_name=name, unregistered_seconds=round(now - at))
                del self._last_registered[name], self._brokers[name]
                self._silent.discard(name)

    def _read_broker(self, broker: Broker) -> BrokerReading | None:
        try:
            producers = self._admin.read_producers(broker)
            consume_enable = self._read_groups(broker)
            groups = self._settings.groups or consume_enable
            connections = (self._admin.read_consumer_connection(broker, group) for group in groups)
            refused = frozenset(group for group, enabled in consume_enable.items() if not enabled)
            consumers = tuple(each for each in connections if each)
            return BrokerReading(broker, consumers, producers, refused, frozenset(consume_enable) or None)
        except RocketMQError as error:
            if broker.broker_name not in self._silent:
                log.warning("the broker does not answer", broker_name=broker.broker_name, error=str(error))
            return None

    def _read_groups(self, broker: Broker) -> dict[str, bool]:
        """Group to consumeEnable; nothing where we may not list them all, but the settings name those we read."""
        try:
            return self._admin.read_groups(broker)
        except RocketMQError as error:
            if not self._settings.groups or error.response_code is None:
                raise
            log.debug("the groups could not be listed", broker_name=broker.broker_name, error=str(error))
            return {}

    def _tell_silence(self, answered: Iterable[str]) -> None:
        names = set(answered)
        for name in sorted(self._silent & names):
            log.info("the broker answers again", broker_name=name)
        self._silent = set(self._brokers) - names

    def _read_routes(self) -> tuple[frozenset[str] | None, tuple[TopicRoute, ...]]:
        """The topics there are, and the routes that could be read."""
        try:
            names = self._settings.topics or [t for t in self._admin.read_topics() if t != self._settings.probe_topic]
        except RocketMQError as error:
            log.debug("the topics could not be read", error=str(error))
            return None, ()
        asked = {name: self._pool.submit(self._admin.read_route, name) for name in names}
        topics, routes = set(), []
        for name, answer in asked.items():
            try:
                route = answer.result()
            except RocketMQError as error:
                topics.add(name)  # it may be there: nothing is concluded
                log.debug("the route could not be read", topic=name, error=str(error))
                continue
            if route is not None:
                topics.add(name)
                routes.append(route)
        return frozenset(topics), tuple(routes)

    def _read_offsets(self, views: Mapping[str, BrokerReading]) -> dict[tuple[str, QueueKey], OffsetWrapper]:
        asked = {
            (name, group.consumer_group): self._pool.submit(self._admin.read_offsets, view.broker, group.consumer_group)
            for name, view in views.items()
            for group in view.groups
        }
        found: dict[tuple[str, QueueKey], OffsetWrapper] = {}
        for (name, group), answer in asked.items():
            for queue, offsets in (_answer_of(answer, (name, group)) or {}).items():
                found[group, queue] = offsets
        return found

    def _start_probes(self) -> list[Future[Latency | None]]:
        try:
            client_id = self._admin.start_producer(self._settings.probe_topic)
        except RocketMQError as error:
            log.warning("the probe's producer does not start", error=str(error))
            return []
        return [self._pool.submit(self._probe, broker, client_id) for broker in self._brokers.values()]

    def _probe(self, broker: Broker, client_id: str) -> Latency | None:
        """One message to the broker and how long it took; None until its topic was ready there once."""
        topic, name = self._settings.probe_topic, broker.broker_name
        if name not in self._probed:
            try:
                if not self._admin.prepare_send(broker, topic):
                    return None
            except RocketMQError as error:
                log.debug("the probe could not be set up", broker_name=name, error=str(error))
                return None
            self._probed.add(name)
        started = time.perf_counter()
        status: str | None = None
        try:
            status, elapsed = self._admin.send(name, topic, b"balancewatch probe")
        except RocketMQError as error:
            elapsed = time.perf_counter() - started
            log.debug("the probe failed", broker_name=name, error=str(error))
        event_time_ms = int(time.time() * 1000)
        return Latency(client_id, self._admin.client_version, topic, name, round(elapsed * 1000), status, event_time_ms)


def pick_cluster(clusters: Mapping[str, tuple[Broker, ...]], wanted: str) -> tuple[str, tuple[Broker, ...]]:
    """The name events carry, and the brokers. `wanted` picks RocketMQ's cluster of that name; when there is only
    one, it may also rename it. Raises CollectorError when it is not clear which is meant.
    """
    if wanted in clusters:
        return wanted, clusters[wanted]
    if len(clusters) == 1:
        ((name, brokers),) = clusters.items()
        return wanted or name, brokers
    names = ", ".join(sorted(clusters))
    raise CollectorError(f"collector.cluster = {wanted!r}: this NameServer has several clusters; name one of {names}")


def _answer_of(answer: Future[Answer], question: object) -> Answer | None:
    try:
        return answer.result()
    except RocketMQError as error:
        log.debug("no answer", question=question, error=str(error))
        return None
