"""One round's questions to RocketMQ: to the NameServer, to each broker for itself, through brokers to the clients.

Brokers are asked side by side, so one that hangs costs the round its timeout once. Clients are asked in threads of
their own, and until a deadline: a round ends within its interval although hundreds of them hang. What was not heard
of brokers that answered is part of the reading.
"""

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

import structlog

from conf.settings import Collector
from streaming.ingest.broker_reader import BrokerReader, BrokerSource, join_unheard
from streaming.ingest.known_brokers import KnownBrokers
from streaming.ingest.probe import Probe, ProbeSource
from streaming.ingest.reading import BrokerReading, QueueKey, Reading, Unheard, find_members
from streaming.ingest.rocketmq_answers import Broker, OffsetWrapper, TopicRoute
from streaming.ingest.rocketmq_jvm import RocketMQError
from streaming.ingest.running_reader import Answers, RunningInfoSource, RunningReader

THREADS = 8

ASKING_SHARE = 0.75
"""Share of collector.interval_seconds after whose end no answer of a client is waited for."""

LEAST_SHARE = 0.25
LEAST_SECONDS = 1.0
"""What clients have to answer, of the interval and at least, however long the brokers took."""

log = structlog.get_logger()
Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Admin(BrokerSource, RunningInfoSource, ProbeSource, Protocol):
    """What a round asks of RocketMQ; RocketMQAdmin answers it."""

    @property
    def client_ids(self) -> frozenset[str]: ...
    def read_clusters(self) -> dict[str, tuple[Broker, ...]]: ...
    def read_topics(self) -> list[str]: ...
    def read_route(self, topic: str) -> TopicRoute | None: ...
    def read_offsets(self, broker: Broker, group: str) -> dict[QueueKey, OffsetWrapper]: ...


class RoundReader:
    """Reads rounds. Remembers which brokers there are, and whether there is a NameServer.

    `brokers` are those known from an earlier reader of the same cluster.
    """

    def __init__(self, settings: Collector, admin: Admin, brokers: KnownBrokers | None = None) -> None:
        self._settings = settings
        self._admin = admin
        self._brokers = brokers or KnownBrokers(settings.name_server, settings.cluster)
        self._readers: dict[str, BrokerReader] = {}
        self._has_name_server = True
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collector")
        self._offsets_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collector-offsets")
        self._clients_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collector-clients")
        self._running = RunningReader(admin, self._clients_pool)
        self._probe = Probe(admin, self._pool, settings.probe_topic)

    def read(self) -> Reading:
        """One round. Raises RocketMQError when there is no broker to ask, CollectorError for a wrong cluster."""
        began = time.monotonic()
        registered = self._read_registered()
        brokers = dict(self._brokers.by_name)
        parts = self._read_brokers(brokers)
        views = {name: view for name, (view, _) in parts.items()}
        probes = self._probe.start(brokers.values()) if self._settings.probe else []
        offsets_asked = self._ask_offsets(views)
        deadline = self._deadline(began)
        topics, routes = self._read_routes(deadline) if registered is not None else (None, ())
        answers = self._running.read(views, self._deadline(began))
        offsets, untold = _gather(offsets_asked, deadline)
        latencies = tuple(latency for probe in probes if (latency := probe.result()))
        return Reading(
            cluster=self._brokers.cluster,
            brokers_asked=tuple(sorted(brokers)),
            brokers=views,
            registered=registered,
            topics=topics,
            routes=routes,
            running=answers.found,
            offsets={(group, queue): each for (_, group), found in offsets.items() for queue, each in found.items()},
            latencies=latencies,
            own_client_ids=self._admin.client_ids,
            unheard=(
                *join_unheard(parts),
                *(Unheard(None, *member, reason) for member, reason in sorted(answers.unheard.items())),
                *find_blind_groups(views, answers, untold),
            ),
            took_ms=round((time.monotonic() - began) * 1000),
        )

    def close(self) -> None:
        """Let the threads go; calls under way end with the admin's JVM."""
        for pool in (self._pool, self._offsets_pool, self._clients_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def _deadline(self, began: float) -> float:
        interval = self._settings.interval_seconds
        least = time.monotonic() + max(LEAST_SHARE * interval, LEAST_SECONDS)
        return max(began + ASKING_SHARE * interval, least)

    def _read_registered(self) -> frozenset[str] | None:
        """Names of the brokers at the NameServer; None when it does not answer and brokers are known from before."""
        try:
            clusters = self._admin.read_clusters()
        except RocketMQError as error:
            if not self._brokers.by_name:
                raise
            if self._has_name_server:
                log.warning("the NameServer does not answer", name_server=self._settings.name_server, error=str(error))
            self._has_name_server = False
            return None
        if not self._has_name_server:
            log.info("the NameServer answers again", name_server=self._settings.name_server)
        self._has_name_server = True
        self._brokers.learn(clusters)
        return frozenset(broker.broker_name for brokers in clusters.values() for broker in brokers)

    def _read_brokers(self, brokers: Mapping[str, Broker]) -> dict[str, tuple[BrokerReading, tuple[Unheard, ...]]]:
        """The parts of those that answered."""
        self._readers = {
            name: self._readers.get(name) or BrokerReader(self._settings, self._admin, name) for name in brokers
        }
        asked = {name: self._pool.submit(self._readers[name].read, broker) for name, broker in brokers.items()}
        return {name: part for name, answer in asked.items() if (part := answer.result())}

    def _read_routes(self, deadline: float) -> tuple[frozenset[str] | None, tuple[TopicRoute, ...]]:
        """The topics there are, and the routes that could be read."""
        try:
            names = self._settings.topics or [t for t in self._admin.read_topics() if t != self._settings.probe_topic]
        except RocketMQError as error:
            log.debug("the topics could not be read", error=str(error))
            return None, ()
        asked = {name: self._pool.submit(self._admin.read_route, name) for name in names}
        found, untold = _gather(asked, deadline)
        topics = untold.keys() | {name for name, route in found.items() if route}  # untold: it may be there
        routes = tuple(route for route in found.values() if route)
        if not untold and not self._settings.topics:
            self._brokers.note_routes(routes)
        return frozenset(topics), routes

    def _ask_offsets(
        self, views: Mapping[str, BrokerReading]
    ) -> dict[tuple[str, str], Future[dict[QueueKey, OffsetWrapper]]]:
        """(broker_name, group) to the answer to come."""
        return {
            (name, group.consumer_group): self._offsets_pool.submit(
                self._admin.read_offsets, view.broker, group.consumer_group
            )
            for name, view in views.items()
            for group in view.groups
            if group.consumer_group not in view.unread
        }


def find_blind_groups(
    views: Mapping[str, BrokerReading], answers: Answers, untold: Mapping[tuple[str, str], str]
) -> list[Unheard]:
    """(broker_name, group) whose offsets could not be read and none of whose members told a queue: whether it
    consumes there nobody said.
    """
    tells = {group for (group, _), infos in answers.found.items() if any(info.process_queues for info in infos)}
    silent = {member[0] for member in find_members(views.values())} - tells
    return [Unheard(name, group, None, reason) for (name, group), reason in untold.items() if group in silent]


def _gather(
    asked: Mapping[Question, Future[Answer]], deadline: float
) -> tuple[dict[Question, Answer], dict[Question, str]]:
    """The answers that came until `deadline`, and why the others did not."""
    _, rest = wait(asked.values(), timeout=max(0.0, deadline - time.monotonic()))
    for answer in rest:
        answer.cancel()
    found: dict[Question, Answer] = {}
    untold: dict[Question, str] = {}
    for question, answer in asked.items():
        if answer in rest:
            untold[question] = "no_time"
            continue
        try:
            found[question] = answer.result()
        except RocketMQError as error:
            log.debug("no answer", question=question, error=str(error))
            untold[question] = error.reason
    return found, untold
