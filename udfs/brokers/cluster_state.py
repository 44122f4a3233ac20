"""What is known of a cluster between two ticks, beside its groups: who gives no data, since when, and what was
reported.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from udfs.alerts.alert import Incident
from udfs.alerts.life import Window
from udfs.brokers.heartbeat_sample import HeartbeatSample
from udfs.brokers.rounds import Rounds, Tick
from udfs.brokers.skew import Skew

WINDOW_MS = 300_000
LEAST_ROUNDS, MOST_ROUNDS = 6, 60

TWICE = 2
"""Absences: a broker that was away once and came back does not answer seldom."""

SELDOM_SHARE, END_SHARE = 0.55, 0.4
"""A broker that misses every other round is not seldom, wherever the window begins: its queues are still judged."""


@dataclass
class MissedRounds:
    """The share of the newest rounds that a broker missed: one that answers one round of ten is as good as gone.

    `missed` has a broker's newest rounds, a 1 for each it missed, the newest last. A broker without any has no entry.

    `rounds` counts the rounds so far, up to MOST_ROUNDS. `seldom_ms` is since when a broker misses most of them.
    """

    rounds: int = 0
    missed: dict[str, str] = field(default_factory=dict)
    seldom_ms: dict[str, int] = field(default_factory=dict)

    def note(self, now_ms: int, asked: Iterable[str], without_data: Iterable[str], interval_ms: int) -> None:
        span = WINDOW_MS // interval_ms if interval_ms else MOST_ROUNDS
        span = min(max(span, LEAST_ROUNDS), MOST_ROUNDS)
        missing, known = set(without_data), set(asked)
        before, self.rounds = self.rounds, min(self.rounds + 1, MOST_ROUNDS)
        for broker_name in missing - self.missed.keys():
            self.missed[broker_name] = "0" * before
        for broker_name, so_far in list(self.missed.items()):
            rounds = (so_far + ("1" if broker_name in missing else "0"))[-span:]
            if broker_name not in known or "1" not in rounds:
                del self.missed[broker_name]
            else:
                self.missed[broker_name] = rounds
        for broker_name, rounds in self.missed.items():
            is_most = rounds.count("1") > SELDOM_SHARE * len(rounds) + 0.5
            if len(rounds) >= LEAST_ROUNDS and is_most and f"0{rounds}".count("01") >= TWICE:
                first_ms = now_ms - (len(rounds) - 1 - rounds.index("1")) * interval_ms
                self.seldom_ms.setdefault(broker_name, first_ms)
        for broker_name in list(self.seldom_ms):
            if self.share(broker_name) < END_SHARE:
                del self.seldom_ms[broker_name]

    def share(self, broker_name: str) -> float:
        rounds = self.missed.get(broker_name, "")
        return round(rounds.count("1") / len(rounds), 2) if rounds else 0.0

    def drop(self, broker_name: str) -> None:
        self.missed.pop(broker_name, None)
        self.seldom_ms.pop(broker_name, None)


STILL_THERE_MS = 60_000
"""A NameServer drops a broker's routes as soon as its connection breaks, which may be just after its last answer."""


REFUSED_WITHIN_MS = 60_000
"""A refusal that began so near to the last words of a broker's clients is the reason why no more give data."""


class QueueChange(NamedTuple):
    """A topic's queues a broker, before and after its route changed."""

    topic: str
    before: Mapping[str, int]
    after: Mapping[str, int]

    def is_by_people(self) -> bool:
        """A broker that dies leaves the route as it is without it, or empty; more queues elsewhere are a decision."""
        return any(count > self.before.get(name, 0) for name, count in self.after.items())


@dataclass
class ClusterState:
    """What is kept of a cluster between ticks, beside its groups.

    no_data_ms     broker → since when it was asked and did not answer
    answered_ms    broker → the newest round that heard it
    without_master_ms  broker → since when routes name only slaves of it
    topics         broker → how many topics' routes name it
    lost_topics    broker that routes no longer name → topic → the queues that were left; none where people moved all
    left_ms        broker → when the last route that named it did not any more
    gone_ms        broker → since when nobody asks a broker without data
    silent_ms      broker → its newest heartbeat, where its clients speak elsewhere only
    silent_at_ms   silent broker → the tick at which it was found to be
    pulls          by broker, the newest pull of a sample of its pairs of group and client
    puller_heartbeats  client of `pulls` → its newest heartbeat, 0 for none, and its process
    offsets_ms     broker → the newest event with committed offsets of its queues that names no client
    mute_ms        broker → its newest pull, where pulls have stopped for several groups and processes at once
    mute_at_ms     mute broker → the tick at which it was found to be
    nothing_ms     the newest heartbeat of all, where none arrives any more
    interval_ms    how far apart the rounds come, as of the newest
    ahead          who told a time from the future → when last, by Kafka's clock, and how far ahead
    forgotten_ms   broker → when a person decided that it is gone; until it gives data
    lingering      broker → the incident that explained what is under it, and until when it still does
    """

    no_data_ms: dict[str, int] = field(default_factory=dict)
    answered_ms: dict[str, int] = field(default_factory=dict)
    without_master_ms: dict[str, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    lost_topics: dict[str, dict[str, int]] = field(default_factory=dict)
    left_ms: dict[str, int] = field(default_factory=dict)
    gone_ms: dict[str, int] = field(default_factory=dict)
    silent_ms: dict[str, int] = field(default_factory=dict)
    silent_at_ms: dict[str, int] = field(default_factory=dict)
    mute_ms: dict[str, int] = field(default_factory=dict)
    mute_at_ms: dict[str, int] = field(default_factory=dict)
    nothing_ms: int | None = None
    forgotten_ms: dict[str, int] = field(default_factory=dict)
    lingering: dict[str, tuple[str, int]] = field(default_factory=dict)
    interval_ms: int = 0
    ahead: dict[str, tuple[int, int]] = field(default_factory=dict)
    skew: Skew = field(default_factory=Skew)
    rounds: Rounds = field(default_factory=Rounds)
    missed: MissedRounds = field(default_factory=MissedRounds)
    heartbeat_sample: HeartbeatSample = field(default_factory=HeartbeatSample)
    pulls: HeartbeatSample = field(default_factory=HeartbeatSample)
    incidents: dict[str, Incident] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    below_ms: int | None = None
    puller_heartbeats: dict[str, tuple[int, str]] = field(default_factory=dict)
    offsets_ms: dict[str, int] = field(default_factory=dict)

    def learn_route(
        self, before: set[str], brokers: set[str], masterless: set[str], at_ms: int, change: QueueChange | None = None
    ) -> None:
        """A topic's route names `brokers`, of which `masterless` have slaves only; it named `before`."""
        if change is not None:
            self._note_lost(before - brokers, change)
        for broker_name in before - brokers:
            self.heartbeat_sample.drop(broker_name)
            self.pulls.drop(broker_name)
            self.topics[broker_name] = self.topics.get(broker_name, 1) - 1
            if self.topics[broker_name] <= 0:
                del self.topics[broker_name]
                self.left_ms[broker_name] = at_ms
                self.without_master_ms.pop(broker_name, None)
        for broker_name in brokers - before:
            self.topics[broker_name] = self.topics.get(broker_name, 0) + 1
            self.lost_topics.pop(broker_name, None)
            self.left_ms.pop(broker_name, None)
        for broker_name in masterless:
            self.without_master_ms.setdefault(broker_name, at_ms)
        for broker_name in brokers - masterless:
            self.without_master_ms.pop(broker_name, None)

    def _note_lost(self, gone: set[str], change: QueueChange) -> None:
        left = sum(change.after.values())
        for topics in self.lost_topics.values():
            if change.topic in topics and (change.is_by_people() or left > topics[change.topic]):
                del topics[change.topic]
        for broker_name in gone:
            topics = self.lost_topics.setdefault(broker_name, {})
            if not change.is_by_people():
                topics[change.topic] = left

    def is_served(self, broker_name: str) -> bool:
        """Whether a route names the broker, or it died or fell silent and nothing took its place.

        Without any route at all that is not known: each broker counts.
        """
        is_missed = broker_name in self.no_data_ms or broker_name in self.silent_ms
        return not self.topics or broker_name in self.topics or is_missed or bool(self.lost_topics.get(broker_name))

    def is_retired(self, broker_name: str) -> bool:
        """No route names it, and not because it died: people have moved its topics, or deleted them."""
        return not self.topics.get(broker_name) and self.lost_topics.get(broker_name) == {}

    def forget_broker(self, broker_name: str, at_ms: int) -> list[Incident]:
        """It is gone by decision; what was open of it."""
        self.forgotten_ms[broker_name] = at_ms
        places: tuple[dict[str, Any], ...] = (
            self.no_data_ms,
            self.answered_ms,
            self.without_master_ms,
            self.gone_ms,
            self.silent_ms,
            self.topics,
            self.lost_topics,
            self.lingering,
            self.mute_ms,
            self.mute_at_ms,
            self.offsets_ms,
        )
        for of_broker in places:
            of_broker.pop(broker_name, None)
        self.missed.drop(broker_name)
        for source in self.rounds.sources.values():
            source.asked = [name for name in source.asked if name != broker_name]
            source.answered = [name for name in source.answered if name != broker_name]
        self.heartbeat_sample.drop(broker_name)
        self.pulls.drop(broker_name)
        about = [key for key, one in sorted(self.incidents.items()) if one.broker_name == broker_name]
        return [self.incidents.pop(key) for key in about]


def note_nothing(cluster_state: ClusterState, tick: Tick, late_ms: int) -> int:
    """Whether anything arrives, where only agents tell; for how long nothing had, at the tick that ends it.

    A collector that answers hears nothing of clients that are all frozen: that is theirs, not ours.
    """
    nothing_ms = cluster_state.heartbeat_sample.all_silent(late_ms) if tick.is_own and tick.answered else None
    before_ms, cluster_state.nothing_ms = cluster_state.nothing_ms, nothing_ms
    return tick.now_ms - before_ms if before_ms is not None and nothing_ms is None else 0


def note_no_data(cluster_state: ClusterState, tick: Tick, without_data: frozenset[str]) -> None:
    for broker_name in without_data:
        cluster_state.no_data_ms.setdefault(broker_name, tick.now_ms)
    for broker_name in tick.answered - without_data:
        cluster_state.no_data_ms.pop(broker_name, None)
        cluster_state.gone_ms.pop(broker_name, None)
    for broker_name in list(cluster_state.no_data_ms):
        if broker_name in tick.asked:
            cluster_state.gone_ms.pop(broker_name, None)
        else:
            cluster_state.gone_ms.setdefault(broker_name, tick.now_ms)


def note_retired(cluster_state: ClusterState, tick: Tick, heard: frozenset[str]) -> None:
    """Who still answers when routes have not named it for a while was not left by dying."""
    for broker_name, left_ms in list(cluster_state.left_ms.items()):
        if broker_name in heard and tick.now_ms >= left_ms + STILL_THERE_MS:
            cluster_state.lost_topics[broker_name] = {}
        elif broker_name not in tick.asked | cluster_state.no_data_ms.keys() | cluster_state.silent_ms.keys():
            del cluster_state.left_ms[broker_name]
            cluster_state.lost_topics.pop(broker_name, None)


def note_silent(cluster_state: ClusterState, tick: Tick, late_ms: int, without_data: frozenset[str]) -> frozenset[str]:
    """A broker stays silent until somebody speaks there or it is retired, whatever becomes of the witnesses. Where
    somebody speaks again.

    Of a broker that did not answer in this round nobody would have been heard; of one that refused groups, or let
    them not give data, their clients from then on were not.
    """
    before = set(cluster_state.silent_ms)
    for broker_name, since_ms in list(cluster_state.silent_ms.items()):
        if (cluster_state.heartbeat_sample.at(broker_name) or 0) > since_ms or cluster_state.is_retired(broker_name):
            del cluster_state.silent_ms[broker_name]
            cluster_state.silent_at_ms.pop(broker_name, None)
    refused = [one for one in cluster_state.rounds.unasked(tick.now_ms, ()) if one.client_id is None]
    for broker_name, since_ms in cluster_state.heartbeat_sample.silent(late_ms).items():
        is_refused = any(
            one.broker_name in (None, broker_name)
            and abs(one.since_ms - since_ms) <= REFUSED_WITHIN_MS + cluster_state.interval_ms
            for one in refused
        )
        if cluster_state.topics.get(broker_name) and broker_name not in without_data and not is_refused:
            cluster_state.silent_ms.setdefault(broker_name, since_ms)
            cluster_state.silent_at_ms.setdefault(broker_name, tick.now_ms)
    return frozenset(before - cluster_state.silent_ms.keys())


BROKER_NO_DATA, BROKER_WITHOUT_MASTER = "broker_no_data", "broker_without_master"
BROKER_ISOLATED, FAILING_BROKER = "broker_isolated", "failing_broker"
GONE = (BROKER_NO_DATA, BROKER_WITHOUT_MASTER)
"""Kinds that say so of a broker, the stronger first."""


@dataclass
class Gone:
    """The cluster's alert that a broker is gone, as its producers' fleet last got it.

    A cluster's rounds, heartbeats and routes show such a broker, and its producers' sends that fail. The alert that
    fires first pages: the other waits under it, and the one that pages takes the graver severity over. A slow broker is
    not gone: only producers report that they avoid it.

    `over_ms` is the tick at which it was over; what producers hold against the broker from before then is its doing.
    """

    incident_id: str
    kind: str
    severity: str
    has_fired: bool
    inhibited_by: str | None
    over_ms: int | None = None

    @property
    def is_notified(self) -> bool:
        """It fires, for itself or under another alert, and is not over."""
        return self.has_fired and self.over_ms is None


def gone_brokers(incidents: Iterable[Incident]) -> dict[str, Gone]:
    """Broker to the strongest alert of a cluster that says it is gone, fired or about to."""
    found: dict[str, Gone] = {}
    for one in sorted((one for one in incidents if one.kind in GONE), key=lambda one: GONE.index(one.kind)):
        if one.broker_name:
            gone = Gone(one.incident_id, one.kind, one.severity, one.has_fired, one.inhibited_by)
            if one.broker_name not in found or not found[one.broker_name].has_fired:
                found[one.broker_name] = gone
    return found


def waits_under(own: Incident | None, other_id: str | None) -> str | None:
    """The other alert of the same trouble, unless this one fired before it."""
    is_first = own is not None and own.has_fired and own.inhibited_by is None
    return None if is_first else other_id
