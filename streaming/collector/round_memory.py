"""Memory of a collector between rounds: the data published last, and the clock skew of each machine.

A heartbeat or pull whose time moved between two readings happened between them, whatever its machine's clock says. Each
such time bounds how far that clock is ahead. A steady clock stays within all bounds; a drifting clock contradicts them
by little and moves them; a clock that was set contradicts them by much, and its bounds start anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streaming.collector.reading import Channel, ChannelKey, Profile, QueueKey
from streaming.collector.rocketmq_answers import TopicRoute

MIN_SKEW_MS = 10_000
MIN_ROUNDS = 3
MAX_DRIFT_MS = 1_000
"""Drift of a clock since its bounds were found, or the pause of a busy machine between reading and reporting it."""
MAX_REPORTED = 100


class Machine(NamedTuple):
    """A broker's name or a ClientId, and its role: broker or client."""

    role: str
    name: str


class Stamp(NamedTuple):
    """A machine's time of an event between `after_ms` and the end of the round, by the collector's clock."""

    machine: Machine
    stamp_ms: int
    after_ms: int


@dataclass(frozen=True, slots=True)
class Skew:
    """Bounds of how far a machine's clock is ahead (below 0: behind), found in `rounds` rounds."""

    lowest_ms: int
    highest_ms: int
    rounds: int = 1

    @property
    def ahead_ms(self) -> int:
        return (self.lowest_ms + self.highest_ms) // 2

    @property
    def is_reported(self) -> bool:
        """Whether it is certain and exceeds MIN_SKEW_MS."""
        is_out_of_step = self.lowest_ms > MIN_SKEW_MS or self.highest_ms < -MIN_SKEW_MS
        return is_out_of_step and self.rounds >= MIN_ROUNDS

    def narrowed(self, other: "Skew") -> "Skew":
        """Return the intersection; the gap between the two if it is at most MAX_DRIFT_MS; otherwise the other."""
        lowest, highest = max(self.lowest_ms, other.lowest_ms), min(self.highest_ms, other.highest_ms)
        if lowest - highest > MAX_DRIFT_MS:
            return other
        return Skew(min(lowest, highest), max(lowest, highest), self.rounds + other.rounds)


def update_skews(known: Mapping[Machine, Skew], stamps: Iterable[Stamp], round_time_ms: int) -> dict[Machine, Skew]:
    by_machine: dict[Machine, list[Stamp]] = defaultdict(list)
    for stamp in stamps:
        by_machine[stamp.machine].append(stamp)
    updated = dict(known)
    for machine, seen in by_machine.items():
        lowest = max(stamp.stamp_ms - round_time_ms for stamp in seen)
        highest = min(stamp.stamp_ms - stamp.after_ms for stamp in seen)
        if lowest <= highest:
            skew = Skew(lowest, highest)
            updated[machine] = known[machine].narrowed(skew) if machine in known else skew
    return updated


def known_ahead_ms(skews: Mapping[Machine, Skew], machine: Machine) -> int:
    """Return how far a machine's clock is certainly ahead; 0 if that is not certain."""
    skew = skews.get(machine)
    return skew.ahead_ms if skew is not None and skew.is_reported else 0


def pick_reported(skews: Mapping[Machine, Skew]) -> list[dict[str, object]]:
    """Return `skews` of a clock event: the MAX_REPORTED largest."""
    reported = [(machine, skew.ahead_ms) for machine, skew in skews.items() if skew.is_reported]
    furthest = sorted(reported, key=lambda each: (-abs(each[1]), each[0]))[:MAX_REPORTED]
    return [{"machine": machine.name, "role": machine.role, "ahead_ms": ahead_ms} for machine, ahead_ms in furthest]


FIRST_SEEN_MS = 120_000
"""RocketMQ's CHANNEL_EXPIRED_TIMEOUT: the greatest age of what is seen for the first time."""


class Moment(NamedTuple):
    """Start and end of a round's reading, by the collector's clock, ms."""

    began_ms: int
    ended_ms: int

    def place(self, stamp_ms: int, before: "Moment | None") -> int:
        """Date an event with a machine's stamp: after the reading `before`, which did not have it, and before the end
        of this one; without `before`, within FIRST_SEEN_MS.
        """
        earliest = before.ended_ms if before else self.ended_ms - FIRST_SEEN_MS
        return min(max(stamp_ms, earliest), self.ended_ms)


@dataclass(frozen=True, slots=True)
class Reported:
    """A channel as published last: its heartbeat by its broker's clock, if known, and the event's time."""

    channel: Channel
    heartbeat_ms: int | None
    event_time_ms: int


class Pulled(NamedTuple):
    """The last answer of a member about a queue that it holds.

    stamp_ms      its newest pull, by its own clock
    waiting_from  its own offset, if the broker had messages for it while its cache was empty
    asked_from    the offset that the broker was last asked for (5.x), if it had messages from there on
    """

    stamp_ms: int
    waiting_from: int | None = None
    asked_from: int | None = None


class Offsets(NamedTuple):
    """A group's offset in a queue, the queue's end, their time of publication, and when the end last moved."""

    commit: int
    end: int
    published_ms: int
    ended_ms: int


NoDataKey = tuple[str | None, str | None, str | None]
"""broker_name, consumer_group, client_id."""


@dataclass(frozen=True)
class Memory:
    """The data published last. Updated only when Kafka has acknowledged a round's events."""

    profiles: Mapping[tuple[str, str], Profile] = field(default_factory=dict)  # by (group, client_id)
    channels: Mapping[ChannelKey, Reported] = field(default_factory=dict)
    pulls: Mapping[tuple[str, str, QueueKey], Pulled] = field(default_factory=dict)  # by (group, client_id, queue)
    offsets: Mapping[tuple[str, QueueKey], Offsets] = field(default_factory=dict)  # by (group, queue)
    routes: Mapping[str, tuple[TopicRoute, int]] = field(default_factory=dict)  # topic: route, when published
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)  # broker: groups it had configured
    broker_rounds: Mapping[str, Moment] = field(default_factory=dict)  # broker: the last round it answered in
    member_rounds: Mapping[tuple[str, str], Moment] = field(default_factory=dict)  # (group, client_id): likewise
    skews: Mapping[Machine, Skew] = field(default_factory=dict)
    unheard: Mapping[NoDataKey, int] = field(default_factory=dict)  # start of missing data

    def after_a_step_back(self, now_ms: int) -> "Memory":
        """Return the memory after the collector's clock was set back: earlier times are no longer comparable."""
        return replace(
            self,
            offsets={},
            routes={topic: (route, 0) for topic, (route, _) in self.routes.items()},
            broker_rounds={},
            member_rounds={},
            skews={},
            unheard={key: min(since_ms, now_ms) for key, since_ms in self.unheard.items()},
        )
