"""The brokers that a round asks: all that are or were registered at the NameServer.

A broker that dies leaves the NameServer within two minutes, with its topics' routes; only an operator knows that it is
gone for good. So it is asked until `balancewatch forget` removes it, or if an operator had moved its topics away: no
route named it while it was still registered.
"""

import time
from collections.abc import Collection, Iterable, Mapping

import msgspec
import structlog
from kafka.errors import KafkaError

from conf.settings import Kafka
from schemas.decode import DECODERS
from schemas.events import CLOCKS
from streaming.collector.rocketmq_answers import Broker, TopicRoute
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.kafka_io.tail import Tail
from streaming.system.known_error import BalancewatchError

UNROUTED_SECONDS = 60.0
"""Time without a route after which a registered broker counts as taken out of service."""

log = structlog.get_logger()


class CollectorError(BalancewatchError):
    """The collector cannot work with these settings. The message names the key and what to change."""


class KnownBrokers:
    def __init__(self, name_server: str, wanted: str) -> None:
        self._name_server = name_server
        self._wanted = wanted
        self.cluster = wanted
        self._own = ""
        self.by_name: dict[str, Broker] = {}
        self._registered: frozenset[str] = frozenset()
        self._unrouted_at: dict[str, float] = {}
        self._is_out_of_service: set[str] = set()

    def learn(self, clusters: Mapping[str, tuple[Broker, ...]]) -> None:
        """Store the registered brokers. Raises RocketMQError without any, CollectorError for an ambiguous cluster."""
        registered = self._pick(clusters)
        self._registered = frozenset(broker.broker_name for broker in registered)
        self.by_name |= {broker.broker_name: broker for broker in registered}
        for name in sorted(self._is_out_of_service - self._registered):
            self._drop(name, "no topic route named it while it was registered")
        if not self.by_name:
            raise RocketMQError(f"NameServer {self._name_server} has no registered broker")

    def note_routes(self, routes: Iterable[TopicRoute]) -> None:
        """Store all routes, from a NameServer that answered every request for them."""
        named = {name for route in routes for name, _ in route.brokers}
        if not named:
            return
        now = time.monotonic()
        for name in self._registered:
            if name in named:
                self._unrouted_at.pop(name, None)
                self._is_out_of_service.discard(name)
            elif now - self._unrouted_at.setdefault(name, now) >= UNROUTED_SECONDS:
                self._is_out_of_service.add(name)

    def forget(self, names: Iterable[str]) -> None:
        """Forget brokers that an operator declared gone. A registered broker is kept."""
        for name in sorted(set(names) & (self.by_name.keys() - self._registered)):
            self._drop(name, "`balancewatch forget`")

    def _pick(self, clusters: Mapping[str, tuple[Broker, ...]]) -> tuple[Broker, ...]:
        """Return the registered brokers of the cluster that was read first.

        Another cluster is ignored, also while all brokers of the first are dead; one with its addresses is the first
        cluster, renamed.
        """
        if not clusters:
            return ()
        if self._own in clusters:
            clusters = {self._own: clusters[self._own]}
        elif self._own:
            addresses = {broker.address for broker in self.by_name.values()}
            renamed = [name for name, found in clusters.items() if addresses & {broker.address for broker in found}]
            if len(renamed) != 1:
                return ()
            clusters = {renamed[0]: clusters[renamed[0]]}
        self.cluster, brokers = pick_cluster(clusters, self._wanted)
        self._own = self._wanted if self._wanted in clusters else next(iter(clusters))
        return brokers

    def _drop(self, name: str, reason: str) -> None:
        log.info("broker forgotten", broker_name=name, reason=reason)
        del self.by_name[name]
        self._unrouted_at.pop(name, None)
        self._is_out_of_service.discard(name)


def pick_cluster(clusters: Mapping[str, tuple[Broker, ...]], wanted: str) -> tuple[str, tuple[Broker, ...]]:
    """Return the cluster name of events, and the brokers. `wanted` selects RocketMQ's cluster, or renames the only one.

    Raises CollectorError if several clusters match.
    """
    if wanted in clusters:
        return wanted, clusters[wanted]
    if len(clusters) == 1:
        ((name, brokers),) = clusters.items()
        return wanted or name, brokers
    names = ", ".join(sorted(clusters))
    raise CollectorError(f"collector.cluster = {wanted!r}: the NameServer has several clusters; choose one of {names}")


AGAIN_SECONDS = 60.0


class Forgotten:
    """Reader of forget decisions on the clock topic, from now on. It retries AGAIN_SECONDS after an error."""

    def __init__(self, kafka: Kafka) -> None:
        self._tail = Tail(kafka, CLOCKS)
        self._not_before = float("-inf")

    def read_brokers(self, cluster: str, known: Collection[str]) -> list[str]:
        """Return the cluster's `known` brokers that were forgotten since the last call."""
        if time.monotonic() < self._not_before:
            return []
        try:
            records = self._tail.read()
        except KafkaError as error:
            log.debug("forget decisions not read", error=type(error).__name__)
            self._not_before = time.monotonic() + AGAIN_SECONDS
            return []
        return [name for record in records for name in find_brokers(record.value, cluster, known)]

    def close(self) -> None:
        self._tail.close()


def find_brokers(value: bytes | None, cluster: str, known: Collection[str]) -> list[str]:
    """Return the cluster's `known` brokers that a clock event forgets; all if it forgets the cluster.

    Return none for any other event or invalid bytes.
    """
    try:
        event = DECODERS[CLOCKS].decode(value or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    decided = event.forgotten if event.source == "forget" and event.cluster == cluster else None
    names = {each.name for each in decided or () if each.kind == "broker"}
    is_all = any(each.kind == "cluster" for each in decided or ())
    return [name for name in known if is_all or name in names]
