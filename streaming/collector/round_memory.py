"""What a collector keeps from round to round, and when what a round saw can have happened."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streaming.collector.machine_skew import Machine, Skew
from streaming.collector.pull_progress import Pulled
from streaming.collector.reading import Channel, ChannelKey, Profile, QueueKey
from streaming.collector.rocketmq_answers import TopicRoute

FIRST_SEEN_MS = 120_000
"""RocketMQ's CHANNEL_EXPIRED_TIMEOUT: what is seen for the first time is not taken to be older."""


class Moment(NamedTuple):
    """When a round's reading began and ended, by the collector's clock, ms."""

    began_ms: int
    ended_ms: int

    def place(self, stamp_ms: int, before: "Moment | None") -> int:
        """When something happened that a machine says was at `stamp_ms`: between the reading `before`, which did not
        see it yet, and this one; without one, as the machine says, within FIRST_SEEN_MS.
        """
        earliest = before.ended_ms if before else self.ended_ms - FIRST_SEEN_MS
        return min(max(stamp_ms, earliest), self.ended_ms)


@dataclass(frozen=True, slots=True)
class Reported:
    """A channel as it was told last: its heartbeat by its broker's clock, None when not told, and the event's time."""

    channel: Channel
    heartbeat_ms: int | None
    event_time_ms: int


class Offsets(NamedTuple):
    """A group's offset in a queue and the queue's end, when they were published, and when the end last moved."""

    commit: int
    end: int
    published_ms: int
    ended_ms: int


NoDataKey = tuple[str | None, str | None, str | None]
"""broker_name, consumer_group, client_id."""


@dataclass(frozen=True)
class Memory:
    """What was published last. Kept only when Kafka has taken a round's events."""

    profiles: Mapping[tuple[str, str], Profile] = field(default_factory=dict)
    channels: Mapping[ChannelKey, Reported] = field(default_factory=dict)
    pulls: Mapping[tuple[str, str, QueueKey], Pulled] = field(default_factory=dict)  # by (group, client_id, queue)
    offsets: Mapping[tuple[str, QueueKey], Offsets] = field(default_factory=dict)  # by (group, queue)
    routes: Mapping[str, tuple[TopicRoute, int]] = field(default_factory=dict)  # topic: route, when published
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)  # broker: those it had a configuration of
    heard: Mapping[str, Moment] = field(default_factory=dict)  # broker: the last round it answered in
    answered: Mapping[tuple[str, str], Moment] = field(default_factory=dict)  # (group, client_id): likewise
    skews: Mapping[Machine, Skew] = field(default_factory=dict)
    unheard: Mapping[NoDataKey, int] = field(default_factory=dict)  # since when

    def after_a_step_back(self, now_ms: int) -> "Memory":
        """After our own clock was set back: no time of before can be compared with those to come."""
        return replace(
            self,
            offsets={},
            routes={topic: (route, 0) for topic, (route, _) in self.routes.items()},
            heard={},
            answered={},
            skews={},
            unheard={key: min(since_ms, now_ms) for key, since_ms in self.unheard.items()},
        )
