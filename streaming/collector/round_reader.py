"""One round's questions to RocketMQ: to the NameServer, to each broker for itself, through brokers to the clients.

Brokers are asked side by side, so one that hangs costs the round its timeout once. Clients are asked in threads of
their own, and until a deadline: a round ends within its interval although hundreds of them hang. What gave no data
of brokers that answered is part of the reading.
"""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

import structlog

from conf.settings import Collector
from streaming.collector.access import AccessError, explain_refusal
from streaming.collector.broker_reader import BrokerReader, BrokerSource, join_no_data
from streaming.collector.known_brokers import KnownBrokers
from streaming.collector.probe import Probe, ProbeSource
from streaming.collector.reading import BrokerReading, QueueKey, Reading, Unheard, find_members
from streaming.collector.rocketmq_answers import Broker, OffsetWrapper, TopicRoute
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.collector.running_reader import Answers, RunningInfoSource, RunningReader
from udfs.rocketmq.own_names import REVIVE_GROUP

THREADS = 8

ASKING_SHARE = 0.75
"""Share of collector.interval_seconds after whose end no answer of a client is waited for."""

LEAST_SHARE = 0.25
LEAST_SECONDS = 1.0
"""What clients have to answer, of the interval and at least, however long the brokers took."""

NO_REVIVE_SECONDS = 300.0
"""A broker that gave no offsets of a revive log is asked again after this."""

log = structlog.get_logger()
Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Admin(BrokerSource, RunningInfoSource, ProbeSource, Protocol):
    """What a round asks of RocketMQ; RocketMQAdmin answers it."""

    @property
    def client_ids(self) -> frozenset[str]: ...
    def read_clusters(self) -> dict[str, tuple[Broker, ...]]: ...
    def ask_name_server(self, name_server: str) -> None: ...
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
        self._name_servers = tuple(dict.fromkeys(filter(None, map(str.strip, settings.name_server.split(";")))))
        self._has_heard = False
        self._offsets_at: dict[tuple[str, str], float] = {}
        self._revives_from: dict[str, float] = {}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collector")
        self._offsets_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collector-offsets")
        self._clients_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collector-clients")
        self._running = RunningReader(admin, self._clients_pool)
        self._probe = Probe(admin, self._pool, settings.probe_topic)

    def read(self) -> Reading:
        """One round. Raises RocketMQError when there is no broker to ask, CollectorError for a wrong cluster, or when
        no broker takes our keys and none ever did.
        """
        began = time.monotonic()
        name_servers = {name: self._pool.submit(self._admin.ask_name_server, name) for name in self._name_servers}
        registered = self._read_registered()
        brokers = dict(self._brokers.by_name)
        parts = self._read_brokers(brokers)
        self._check_access(parts.keys())
        views = {name: view for name, (view, _) in parts.items()}
        probes = self._probe.start(brokers.values()) if self._settings.probe else []
        offsets_asked = self._ask_offsets(views)
        deadline = self._deadline(began)
        topics, routes = self._read_routes(deadline) if registered is not None else (None, ())
        answers = self._running.read(views, self._deadline(began))
        offsets, unreported = _gather(offsets_asked, deadline)
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
                *join_no_data(parts),
                *(Unheard(None, *member, reason) for member, reason in sorted(answers.unheard.items())),
                *find_blind_groups(views, answers, unreported),
            ),
            name_servers=self._name_servers,
            name_servers_unreachable=tuple(name for name, answer in name_servers.items() if _has_failed(answer)),
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
                log.warning("name server unreachable", name_server=self._settings.name_server, error=str(error))
            self._has_name_server = False
            return None
        if not self._has_name_server:
            log.info("name server recovered", name_server=self._settings.name_server)
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

    def _check_access(self, answered: Collection[str]) -> None:
        """Keys that worked once may be changed at the brokers first: then they are asked until both agree."""
        self._has_heard = self._has_heard or bool(answered)
        refusals = [reader.refusal for reader in self._readers.values() if reader.refusal]
        if refusals and not self._has_heard:
            raise AccessError(explain_refusal(self._settings, refusals[0]))

    def _read_routes(self, deadline: float) -> tuple[frozenset[str] | None, tuple[TopicRoute, ...]]:
        """The topics there are, and the routes that could be read."""
        try:
            names = self._settings.topics or [t for t in self._admin.read_topics() if t != self._settings.probe_topic]
        except RocketMQError as error:
            log.debug("topic list not read", error=str(error))
            return None, ()
        asked = {name: self._pool.submit(self._admin.read_route, name) for name in names}
        found, unreported = _gather(asked, deadline)
        topics = unreported.keys() | {name for name, route in found.items() if route}  # unreported: it may be there
        routes = tuple(route for route in found.values() if route)
        if not unreported and not self._settings.topics:
            self._brokers.note_routes(routes)
        return frozenset(topics), routes

    def _ask_offsets(
        self, views: Mapping[str, BrokerReading]
    ) -> dict[tuple[str, str], Future[dict[QueueKey, OffsetWrapper]]]:
        """(broker_name, group) to the answer to come; who was asked longest ago is first."""
        wanted = {
            (name, group.consumer_group): view.broker
            for name, view in views.items()
            for group in view.groups
            if group.consumer_group not in view.unread
        }
        wanted |= {(name, REVIVE_GROUP): view.broker for name, view in views.items() if self._may_revive(name)}
        self._offsets_at = {key: at for key, at in self._offsets_at.items() if key in wanted}
        turns = sorted(wanted, key=lambda key: self._offsets_at.get(key, 0.0))
        return {key: self._offsets_pool.submit(self._read_offsets, wanted[key], key) for key in turns}

    def _may_revive(self, broker_name: str) -> bool:
        """Whether to ask a broker how far it has read its revive log: one without any (4.x, no POP) is asked rarely."""
        is_watched = not self._settings.groups or REVIVE_GROUP in self._settings.groups
        return is_watched and time.monotonic() >= self._revives_from.get(broker_name, 0.0)

    def _read_offsets(self, broker: Broker, key: tuple[str, str]) -> dict[QueueKey, OffsetWrapper]:
        self._offsets_at[key] = time.monotonic()
        if key[1] != REVIVE_GROUP:
            return self._admin.read_offsets(broker, key[1])
        self._revives_from[broker.broker_name] = time.monotonic() + NO_REVIVE_SECONDS
        offsets = self._admin.read_offsets(broker, key[1])
        if offsets:
            del self._revives_from[broker.broker_name]
        return offsets


def find_blind_groups(
    views: Mapping[str, BrokerReading], answers: Answers, unreported: Mapping[tuple[str, str], str]
) -> list[Unheard]:
    """(broker_name, group) whose offsets could not be read and none of whose members told a queue: whether it
    consumes there nobody said.
    """
    reports = {group for (group, _), infos in answers.found.items() if any(info.process_queues for info in infos)}
    silent = {member[0] for member in find_members(views.values())} - reports
    return [Unheard(name, group, None, reason) for (name, group), reason in unreported.items() if group in silent]


def _has_failed(answer: Future[None]) -> bool:
    """Wait for the answer, and return whether it is an error. RocketMQ's own timeout bounds the wait."""
    return isinstance(answer.exception(), RocketMQError)


def _gather(
    asked: Mapping[Question, Future[Answer]], deadline: float
) -> tuple[dict[Question, Answer], dict[Question, str]]:
    """The answers that came until `deadline`, and why the others did not."""
    _, rest = wait(asked.values(), timeout=max(0.0, deadline - time.monotonic()))
    for answer in rest:
        answer.cancel()
    found: dict[Question, Answer] = {}
    unreported: dict[Question, str] = {}
    for question, answer in asked.items():
        if answer in rest:
            unreported[question] = "no_time"
            continue
        try:
            found[question] = answer.result()
        except RocketMQError as error:
            log.debug("request failed", question=question, error=str(error))
            unreported[question] = error.reason
    return found, unreported
