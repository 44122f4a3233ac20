"""Which brokers a round asks: all that are registered at the NameServer, and all that once were.

A broker that dies leaves the NameServer within two minutes, and its topics' routes with it; only a person knows that
it is gone for good. So it is asked for until it answers, until `balancewatch forget` says so, or when a person had
moved the topics away: no route named it while it was still registered.
"""

import time
from collections.abc import Iterable, Mapping

import structlog

from streaming.collector.rocketmq_answers import Broker, TopicRoute
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.system.known_error import BalancewatchError

UNROUTED_SECONDS = 60.0
"""For so long no route names a registered broker before it counts as taken out of service."""

log = structlog.get_logger()


class CollectorError(BalancewatchError):
    """The collector cannot work with these settings. The message names the key and what to change."""


class KnownBrokers:
    """The brokers of one cluster, by name."""

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
        """What is registered now. Raises RocketMQError when there is no broker to ask, CollectorError when it is not
        clear which cluster is meant.
        """
        registered = self._pick(clusters)
        self._registered = frozenset(broker.broker_name for broker in registered)
        self.by_name |= {broker.broker_name: broker for broker in registered}
        for name in sorted(self._is_out_of_service - self._registered):
            self._drop(name, "no topic route named it while it was registered")
        if not self.by_name:
            raise RocketMQError(f"NameServer {self._name_server} has no registered broker")

    def note_routes(self, routes: Iterable[TopicRoute]) -> None:
        """All routes there are, of a NameServer that answered each question for them."""
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
        """A person decided that these are gone for good; one that is registered is no such."""
        for name in sorted(set(names) & (self.by_name.keys() - self._registered)):
            self._drop(name, "`balancewatch forget`")

    def _pick(self, clusters: Mapping[str, tuple[Broker, ...]]) -> tuple[Broker, ...]:
        """The registered brokers of the cluster first read. Another one beside it, or instead of it while all its own
        are dead, is not meant; one that has taken over its addresses was renamed.
        """
        if not clusters:
            return ()
        addresses = {broker.address for broker in self.by_name.values()}
        if self._own and self._own not in clusters:
            clusters = {
                name: brokers
                for name, brokers in clusters.items()
                if addresses & {broker.address for broker in brokers}
            }
            if len(clusters) != 1:
                return ()
        elif self._own:
            clusters = {self._own: clusters[self._own]}
        self.cluster, brokers = pick_cluster(clusters, self._wanted)
        self._own = self._wanted if self._wanted in clusters else next(iter(clusters))
        return brokers

    def _drop(self, name: str, reason: str) -> None:
        log.info("broker forgotten", broker_name=name, reason=reason)
        del self.by_name[name]
        self._unrouted_at.pop(name, None)
        self._is_out_of_service.discard(name)


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
    raise CollectorError(f"collector.cluster = {wanted!r}: the NameServer has several clusters; choose one of {names}")
