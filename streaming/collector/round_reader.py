"""The requests of a poll round: to the NameServers, to each broker, and through brokers to the clients.

Brokers are asked in parallel, so a hanging one costs the round its timeout once. Clients are asked in separate threads
up to a deadline, so a round ends within its interval although hundreds hang. Missing data is part of the reading.

If a broker does not answer, its part of the round ends. A response with an error code counts as an answer: refused data
is named and the rest is read. Each request is retried once. A group whose request is lost twice is named; if the next
group's request is lost too, the broker counts as unreachable.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import TypeVar

import structlog

from conf.settings import Collector
from streaming.collector.access import AccessError, are_keys_refused, explain_refusal, is_refused
from streaming.collector.known_brokers import KnownBrokers
from streaming.collector.reading import BrokerReading, Latency, QueueKey, Reading, Unheard, find_members
from streaming.collector.rocketmq_admin import RocketMQAdmin
from streaming.collector.rocketmq_answers import Broker, ConsumerConnection, OffsetWrapper, TopicRoute
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.collector.running_reader import Answers, RunningReader
from udfs.rocketmq.own_names import REVIVE_GROUP

THREADS = 8

ASKING_SHARE = 0.75
"""Share of collector.interval_seconds after which a round waits for no more answers of clients."""

LEAST_SHARE = 0.25
LEAST_SECONDS = 1.0
"""Least time that clients have to answer, as a share of the interval and in seconds, after the brokers' answers."""

NO_REVIVE_SECONDS = 300.0
"""Time after which a broker without a revive log is asked for it again."""

LOST_IN_A_ROW = 2
"""Groups in a row whose requests are lost before the broker counts as unreachable."""

GROUP_LIST = "list of groups; set collector.groups to name them"

log = structlog.get_logger()
Question = TypeVar("Question")
Answer = TypeVar("Answer")


class BrokerReader:
    """A reader of one broker. It keeps the last known groups and members for rounds in which they are missing."""

    def __init__(self, settings: Collector, source: RocketMQAdmin, broker_name: str) -> None:
        self._settings = settings
        self._source = source
        self._name = broker_name
        self._groups: tuple[str, ...] = ()
        self._connections: dict[str, ConsumerConnection] = {}
        self._refusals: set[str] = set()
        self._is_silent = False
        self.refusal: RocketMQError | None = None
        """The refusal of the ACL keys in the newest round, if any."""

    def read(self, broker: Broker) -> tuple[BrokerReading, tuple[Unheard, ...]] | None:
        """Return the broker's data and the missing data; None if the broker does not answer."""
        self.refusal = None
        try:
            view, unheard = self._read(broker)
        except RocketMQError as error:
            self.refusal = error if are_keys_refused(error) else None
            if not self._is_silent:
                event = "broker refused the ACL keys" if self.refusal else "broker unreachable"
                log.warning(event, broker_name=self._name, error=str(error))
            self._is_silent = True
            return None
        if self._is_silent:
            log.info("broker recovered", broker_name=self._name)
        self._is_silent = False
        return view, unheard

    def _read(self, broker: Broker) -> tuple[BrokerReading, tuple[Unheard, ...]]:
        producers = self._ask_permitted("producers", self._source.read_producers, broker)
        needs_list = not (self._settings.groups or self._groups)
        enabled = self._ask_permitted(GROUP_LIST, self._source.read_groups, broker, is_needed=needs_list)
        self._groups = self._groups if enabled is None else tuple(enabled)
        names = self._settings.groups or self._groups
        unread = self._read_connections(broker, names)
        view = BrokerReading(
            broker,
            tuple(self._connections[name] for name in names if name in self._connections),
            producers or {},
            refused=frozenset(group for group, is_enabled in (enabled or {}).items() if not is_enabled),
            group_names=frozenset(enabled or ()) or None,
            unread=frozenset(unread),
            reports_producers=producers is not None,
        )
        return view, tuple(Unheard(self._name, group, None, reason) for group, reason in unread.items())

    def _ask_permitted(
        self, what: str, question: Callable[[Broker], Answer], broker: Broker, *, is_needed: bool = False
    ) -> Answer | None:
        """Return the answer; None if it is refused. Raises RocketMQError if it is lost or needed, or for bad keys."""
        try:
            answer = self._ask(question, broker)
        except RocketMQError as error:
            if not error.is_answer or are_keys_refused(error):
                raise
            self._note_refusal(what, error)
            if is_needed:
                raise
            return None
        self._refusals.discard(what)
        return answer

    def _read_connections(self, broker: Broker, groups: Iterable[str]) -> dict[str, str]:
        """Read the members of each group; return group to reason for those that could not be read."""
        unread: dict[str, str] = {}
        connections: dict[str, ConsumerConnection] = {}
        lost = 0
        for group in groups:
            try:
                connection = self._ask(self._source.read_consumer_connection, broker, group)
            except RocketMQError as error:
                if are_keys_refused(error):
                    raise
                if not error.is_answer:
                    lost += 1
                    if lost == LOST_IN_A_ROW:
                        raise
                self._note_refusal(group, error)
                unread[group] = error.reason
                connection = self._connections.get(group)
            else:
                lost = 0
                self._refusals.discard(group)
            if connection is not None:
                connections[group] = connection
        self._connections = connections
        return unread

    def _ask(self, question: Callable[..., Answer], *arguments: object) -> Answer:
        """Return the answer; retry a lost request once, unless the broker was already unreachable."""
        try:
            return question(*arguments)
        except RocketMQError as error:
            if error.is_answer or self._is_silent:
                raise
            log.debug("request retried", broker_name=self._name, question=arguments[1:], error=str(error))
        return question(*arguments)

    def _note_refusal(self, what: str, error: RocketMQError) -> None:
        """Log refused data once, not every round."""
        if what not in self._refusals:
            log.warning("broker refused data", broker_name=self._name, data=what, error=str(error))
        self._refusals.add(what)


class Probe:
    """The probe: one small message per broker and round, and its latency."""

    def __init__(self, source: RocketMQAdmin, pool: Executor, topic: str) -> None:
        self._source = source
        self._pool = pool
        self._topic = topic
        self._prepared: set[str] = set()
        self._refused: set[str] = set()

    def start(self, brokers: Iterable[Broker]) -> list[Future[Latency | None]]:
        """Send a message to each broker; the result is None until the topic is ready there."""
        try:
            client_id = self._source.start_producer(self._topic)
        except RocketMQError as error:
            log.warning("probe producer not started", error=str(error))
            return []
        return [self._pool.submit(self._send, broker, client_id) for broker in brokers]

    def _send(self, broker: Broker, client_id: str) -> Latency | None:
        topic, name = self._topic, broker.broker_name
        if name not in self._prepared:
            try:
                if not self._source.prepare_send(broker, topic):
                    return None
            except RocketMQError as error:
                log.debug("probe topic not prepared", broker_name=name, error=str(error))
                return None
            self._prepared.add(name)
        started = time.perf_counter()
        status: str | None = None
        try:
            status, elapsed = self._source.send(name, topic, b"balancewatch probe")
        except RocketMQError as error:
            if is_refused(error):  # a missing permission does not isolate the broker
                if name not in self._refused:
                    log.warning("probe refused", broker_name=name, topic=topic, error=str(error))
                self._refused.add(name)
                return None
            elapsed = time.perf_counter() - started
            log.debug("probe failed", broker_name=name, error=str(error))
        event_time_ms = int(time.time() * 1000)
        version = self._source.client_version
        return Latency(client_id, version, topic, name, round(elapsed * 1000), status, event_time_ms)


class RoundReader:
    """A reader of poll rounds. `brokers` are those known from an earlier reader of the same cluster."""

    def __init__(self, settings: Collector, admin: RocketMQAdmin, brokers: KnownBrokers | None = None) -> None:
        self._settings = settings
        self._admin = admin
        self._brokers = brokers or KnownBrokers(settings.name_server, settings.cluster)
        self._readers: dict[str, BrokerReader] = {}
        self._has_name_server = True
        self._name_servers = tuple(dict.fromkeys(filter(None, map(str.strip, settings.name_server.split(";")))))
        self._has_access = False
        self._offsets_at: dict[tuple[str, str], float] = {}
        self._revives_from: dict[str, float] = {}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collector")
        self._offsets_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collector-offsets")
        self._clients_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collector-clients")
        self._running = RunningReader(admin.read_running_info, self._clients_pool)
        self._probe = Probe(admin, self._pool, settings.probe_topic)

    def read(self) -> Reading:
        """Return one round. Raises RocketMQError without any broker; CollectorError for an ambiguous cluster, or if no
        broker ever accepted the ACL keys.
        """
        began = time.monotonic()
        name_servers = {name: self._pool.submit(self._admin.ask_name_server, name) for name in self._name_servers}
        registered = self._read_registered()
        brokers = dict(self._brokers.by_name)
        parts = self._read_brokers(brokers)
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
                *(each for _, missing in parts.values() for each in missing),
                *(Unheard(None, *member, reason) for member, reason in sorted(answers.unheard.items())),
                *_find_blind_groups(views, answers, unreported),
            ),
            name_servers=self._name_servers,
            name_servers_unreachable=tuple(
                name for name, answer in name_servers.items() if isinstance(answer.exception(), RocketMQError)
            ),
            took_ms=round((time.monotonic() - began) * 1000),
        )

    def close(self) -> None:
        """Release the threads; running calls end with the admin's JVM."""
        for pool in (self._pool, self._offsets_pool, self._clients_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def _deadline(self, began: float) -> float:
        interval = self._settings.interval_seconds
        least = time.monotonic() + max(LEAST_SHARE * interval, LEAST_SECONDS)
        return max(began + ASKING_SHARE * interval, least)

    def _read_registered(self) -> frozenset[str] | None:
        """Return the names of registered brokers; None if the NameServer is silent but brokers are known."""
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
        """Return the readings of the brokers that answered. Raises AccessError if no broker ever accepted the keys."""
        self._readers = {
            name: self._readers.get(name) or BrokerReader(self._settings, self._admin, name) for name in brokers
        }
        asked = {name: self._pool.submit(self._readers[name].read, broker) for name, broker in brokers.items()}
        answered = {name: part for name, answer in asked.items() if (part := answer.result())}
        self._has_access = self._has_access or bool(answered)
        refusals = [reader.refusal for reader in self._readers.values() if reader.refusal]
        if refusals and not self._has_access:  # keys that worked once are tried again
            raise AccessError(explain_refusal(self._settings, refusals[0]))
        return answered

    def _read_routes(self, deadline: float) -> tuple[frozenset[str] | None, tuple[TopicRoute, ...]]:
        """Return the existing topics (None: unknown) and the routes that could be read."""
        try:
            names = self._settings.topics or [t for t in self._admin.read_topics() if t != self._settings.probe_topic]
        except RocketMQError as error:
            log.debug("topic list not read", error=str(error))
            return None, ()
        asked = {name: self._pool.submit(self._admin.read_route, name) for name in names}
        found, unreported = _gather(asked, deadline)
        topics = unreported.keys() | {name for name, route in found.items() if route}  # unreported: it may exist
        routes = tuple(route for route in found.values() if route)
        if not unreported and not self._settings.topics:
            self._brokers.note_routes(routes)
        return frozenset(topics), routes

    def _ask_offsets(
        self, views: Mapping[str, BrokerReading]
    ) -> dict[tuple[str, str], Future[dict[QueueKey, OffsetWrapper]]]:
        """Request the offsets of each (broker_name, group), least recently asked first."""
        wanted = {
            (name, group.consumer_group): view.broker
            for name, view in views.items()
            for group in view.groups
            if group.consumer_group not in view.unread
        }
        if not self._settings.groups or REVIVE_GROUP in self._settings.groups:
            now = time.monotonic()
            wanted |= {
                (name, REVIVE_GROUP): view.broker
                for name, view in views.items()
                if now >= self._revives_from.get(name, 0.0)
            }
        self._offsets_at = {key: at for key, at in self._offsets_at.items() if key in wanted}
        turns = sorted(wanted, key=lambda key: self._offsets_at.get(key, 0.0))
        return {key: self._offsets_pool.submit(self._read_offsets, wanted[key], key[1]) for key in turns}

    def _read_offsets(self, broker: Broker, group: str) -> dict[QueueKey, OffsetWrapper]:
        """Return the group's offsets. A broker without a revive log (4.x, no POP) is asked for it rarely."""
        name = broker.broker_name
        self._offsets_at[name, group] = time.monotonic()
        if group == REVIVE_GROUP:
            self._revives_from[name] = time.monotonic() + NO_REVIVE_SECONDS
        offsets = self._admin.read_offsets(broker, group)
        if group == REVIVE_GROUP and offsets:
            del self._revives_from[name]
        return offsets


def _find_blind_groups(
    views: Mapping[str, BrokerReading], answers: Answers, unreported: Mapping[tuple[str, str], str]
) -> list[Unheard]:
    """Return each (broker_name, group) whose consumption is unknown: no offsets, and no member reported a queue."""
    reports = {group for (group, _), infos in answers.found.items() if any(info.process_queues for info in infos)}
    silent = {member[0] for member in find_members(views.values())} - reports
    return [Unheard(name, group, None, reason) for (name, group), reason in unreported.items() if group in silent]


def _gather(
    asked: Mapping[Question, Future[Answer]], deadline: float
) -> tuple[dict[Question, Answer], dict[Question, str]]:
    """Return the answers up to `deadline`, and the reason for each missing one."""
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
