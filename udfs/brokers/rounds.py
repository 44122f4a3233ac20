"""A cluster's rounds, by who tells them: how far apart they come, who still tells them, what all of them heard.

Several collectors may speak for one cluster, by mistake or on purpose. What one of them hears gives data; what only one
that has stopped spoke for is not asked any more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from udfs.alerts.rules import LONG_POLL_MS, Rules
from udfs.brokers.broker_coverage import NO_COLLECTOR, Unasked

GAPS, MORE_GAPS = 5, 16
"""The newest gaps between rounds: their interval is the median of so many, and so many are remembered."""

LIVE_ROUNDS = 3
"""A source that has let so many of its intervals pass has stopped."""

LIVE_MS = 15_000
"""A source lives for so long after a round, however short its interval."""

BLIND_ROUNDS = 2.5
"""A longer gap is an absence; a shorter one may be a single lost round."""

BLIND_GAPS = 1.5
"""So is one that is so much longer than another of the newest: a gap that comes again is how the rounds come."""

SLOW_MS = 30_000
"""MQClientInstance's heartbeat interval: rounds further apart miss what clients say in between."""

UNSCALED_MS = 24_000
"""Rounds no further apart than this need no rules of their own."""

READ_MS = 40_000
"""How long reading a round may take: what was read first is so old when its clock event comes."""

FORGET_SOURCE_MS = 86_400_000
"""A source that has stopped, and whose part others do, is remembered for so long."""


@dataclass(frozen=True)
class MachineSkew:
    """A machine whose clock a source saw out of step with its own; `role` is broker or client."""

    machine: str
    role: str
    ahead_ms: int


@dataclass(frozen=True)
class Tick:
    """One clock event, or what those of several sources say together. `is_own`: `run` sent it, which asks no broker.

    source       who tells it: a source, and which of several collectors
    groups       the groups it speaks for; None for all
    interval_ms  how far apart its rounds are meant to be
    unasked      what brokers that answered did not let hear
    skews        machines whose clock is out of step
    name_servers  the NameServers that the source is configured with; `unreachable` those that did not answer
    addresses    broker → its master's address, of the brokers that answered
    """

    now_ms: int
    asked: frozenset[str]
    answered: frozenset[str]
    is_own: bool
    source: str = ""
    groups: frozenset[str] | None = None
    interval_ms: int | None = None
    unasked: tuple[Unasked, ...] = ()
    skews: tuple[MachineSkew, ...] = ()
    name_servers: tuple[str, ...] = ()
    unreachable: frozenset[str] = frozenset()
    addresses: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Source:
    """The newest round of one source, and the newest gaps between rounds that heard anything.
    `unreachable_ms`: NameServer → the first round in which it did not answer."""

    now_ms: int
    is_own: bool
    asked: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    groups: list[str] | None = None
    reported_ms: int | None = None
    gaps_ms: list[int] = field(default_factory=list)
    unasked: list[Unasked] = field(default_factory=list)
    skews: list[MachineSkew] = field(default_factory=list)
    name_servers: list[str] = field(default_factory=list)
    unreachable_ms: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def interval_ms(self) -> int:
        """As the collector says, or as far as rounds really come apart where that is more; 0 before the second."""
        gaps = self.gaps_ms[-GAPS:]
        seen_ms = 0 if not gaps else min(gaps) if len(gaps) < 3 else round(median(gaps))
        return max(self.reported_ms or 0, seen_ms)

    def usual_gap_ms(self) -> int:
        """The longest gap that came twice lately."""
        return sorted(self.gaps_ms)[-2] if len(self.gaps_ms) > 1 else 0

    def is_live(self, now_ms: int) -> bool:
        return now_ms - self.now_ms <= self.lifetime_ms()

    def lifetime_ms(self) -> int:
        return max(LIVE_MS, LIVE_ROUNDS * self.interval_ms())

    def speaks_for(self, consumer_group: str) -> bool:
        return self.groups is None or consumer_group in self.groups

    def take(self, tick: Tick) -> None:
        if tick.now_ms <= self.now_ms:
            return
        if tick.answered and self.answered:
            self.gaps_ms = [*self.gaps_ms, tick.now_ms - self.now_ms][-MORE_GAPS:]
        self.now_ms, self.reported_ms = tick.now_ms, tick.interval_ms
        self.asked, self.answered = sorted(tick.asked), sorted(tick.answered)
        self.groups = None if tick.groups is None else sorted(tick.groups)
        self.unasked, self.skews = list(tick.unasked), list(tick.skews)
        self.name_servers, self.addresses = list(tick.name_servers), dict(tick.addresses)
        self.unreachable_ms = {name: self.unreachable_ms.get(name, self.now_ms) for name in sorted(tick.unreachable)}


@dataclass
class Rounds:
    """Every source of a cluster's time that is remembered, by its name.

    `resumed_ms` is the first round of a collector after a time without any live collector. The silence of the others
    counts from there: until then no collector continued.
    """

    sources: dict[str, Source] = field(default_factory=dict)
    resumed_ms: int = 0

    def note(self, tick: Tick) -> None:
        """Take one source's round in. A collector that still runs has its brokers again after its next round."""
        if not tick.is_own and all(source.is_own for source in self.live(tick.now_ms)):
            self.resumed_ms = max(tick.now_ms, self.resumed_ms)
        known = self.sources.get(tick.source)
        if known is None:
            known = self.sources[tick.source] = Source(tick.now_ms - 1, tick.is_own)
        known.take(tick)
        if tick.is_own:
            return
        for source in self.sources.values():  # its brokers are not lost with the older rounds of other collectors
            if not source.is_own and source.now_ms < known.now_ms:
                source.asked = [name for name in source.asked if name not in known.asked]

    def collectors(self, now_ms: int) -> dict[str, Source]:
        """Return the live collectors by name; all that are known where none is live."""
        known = {name: source for name, source in sorted(self.sources.items()) if not source.is_own}
        return {name: source for name, source in known.items() if source.is_live(now_ms)} or known

    def live(self, now_ms: int) -> list[Source]:
        return [source for _, source in sorted(self.sources.items()) if source.is_live(now_ms)]

    def together(self, now_ms: int) -> Tick:
        """What the sources that live have asked and heard: a broker that one of them hears gives data."""
        live = self.live(now_ms)
        asked = frozenset(name for source in live for name in source.asked)
        answered = frozenset(name for source in live for name in source.answered)
        return Tick(now_ms, asked | answered, answered, all(source.is_own for source in live))

    def interval_ms(self, now_ms: int) -> int:
        """How far apart the cluster's rounds are: by the quickest that speaks for all, else by the slowest."""
        live = self.live(now_ms)
        of_all = [source.interval_ms() for source in live if source.groups is None and source.interval_ms()]
        return min(of_all) if of_all else max((source.interval_ms() for source in live), default=0)

    def usual_gap_ms(self, now_ms: int) -> int:
        """The longest gap that comes again and again at each that speaks for all, else at any."""
        live = self.live(now_ms)
        of_all = [source.usual_gap_ms() for source in live if source.groups is None]
        return min(of_all) if of_all else max((source.usual_gap_ms() for source in live), default=0)

    def stopped(self, now_ms: int) -> dict[str, Source]:
        """Collectors that have stopped while another goes on, by name."""
        live = self.live(now_ms)
        if all(source.is_own for source in live):
            return {}  # nobody goes on: the cluster as a whole gives no data
        return {
            name: source
            for name, source in sorted(self.sources.items())
            if not source.is_own and not source.is_live(now_ms)
        }

    def unasked(self, now_ms: int, groups: Iterable[str]) -> tuple[Unasked, ...]:
        """What nobody reports of `groups`: no source that lives tells it, or one alone asked it and has stopped."""
        live = self.live(now_ms)
        found = [one for source in live for one in source.unasked if not _is_heard(one, source, live)]
        stopped = self.stopped(now_ms)
        asked = {name for source in live for name in source.asked}
        for source in stopped.values():
            lost = {name for name in source.asked if name not in asked}
            found += [Unasked(name, None, None, NO_COLLECTOR, source.now_ms) for name in sorted(lost)]
        if stopped and any(one.groups is not None for one in live):
            found += [
                Unasked(None, group, None, NO_COLLECTOR, max(by))
                for group in sorted(groups)
                if not any(one.speaks_for(group) for one in live if not one.is_own)
                and (by := [one.now_ms for one in stopped.values() if one.speaks_for(group)])
            ]
        return tuple(found)

    def lost_groups(self, name: str, now_ms: int) -> list[str] | None:
        """The groups that only this source spoke for, which has stopped; None for all but the others'."""
        others = [one for one in self.live(now_ms) if not one.is_own]
        groups = self.sources[name].groups
        if groups is None:
            return [] if any(one.groups is None for one in others) else None
        return [group for group in groups if not any(one.speaks_for(group) for one in others)]

    def drop_group(self, consumer_group: str) -> None:
        """Take a group that a person deleted or forgot out of each collector's groups."""
        for source in self.sources.values():
            if source.groups is not None:
                source.groups = [name for name in source.groups if name != consumer_group]

    def forget(self, now_ms: int) -> None:
        """Drop who has stopped long ago and is not missed."""
        for name, source in list(self.sources.items()):
            is_missed = not source.is_own and (self.lost_groups(name, now_ms) != [] or self.lost_brokers(name, now_ms))
            if now_ms - source.now_ms > FORGET_SOURCE_MS and not is_missed:
                del self.sources[name]

    def lost_brokers(self, name: str, now_ms: int) -> set[str]:
        """The brokers that only this source asked."""
        return set(self.sources[name].asked) - {broker for one in self.live(now_ms) for broker in one.asked}


def _is_heard(one: Unasked, by: Source, live: list[Source]) -> bool:
    """Whether another source that lives heard what this one did not."""
    return any(
        other is not by
        and not other.is_own
        and (one.broker_name is None or one.broker_name in other.answered)
        and (one.consumer_group is None or other.speaks_for(one.consumer_group))
        and not any(same.covers(one.consumer_group or "", one.broker_name, one.client_id) for same in other.unasked)
        for other in live
    )


def scaled(rules: Rules, interval_ms: int, usual_gap_ms: int = 0) -> Rules:
    """The rules for rounds so far apart: what a round can tell at all may be as old as the one before.

    Rounds up to UNSCALED_MS apart change nothing; of those further apart an evaluation counts for two, for between a
    late heartbeat and its channel's end there may be no second one. Where some are slow again and again, that is no
    absence. A heartbeat that is new in a round may bear any time since the round before: of a broker whose clock is
    behind, that round's.
    """
    max_evaluation_gap_ms = max(rules.max_evaluation_gap_ms, round(BLIND_GAPS * usual_gap_ms))
    if interval_ms <= UNSCALED_MS and BLIND_ROUNDS * interval_ms <= rules.max_evaluation_gap_ms:
        return (
            rules
            if max_evaluation_gap_ms == rules.max_evaluation_gap_ms
            else replace(rules, max_evaluation_gap_ms=max_evaluation_gap_ms)
        )
    kinds = {
        name: replace(kind, pending_evaluations=-(-kind.pending_evaluations // 2)) for name, kind in rules.kinds.items()
    }
    return replace(
        rules,
        max_evaluation_gap_ms=max(max_evaluation_gap_ms, round(BLIND_ROUNDS * interval_ms)),
        pull_silence_ms=max(rules.pull_silence_ms, min(interval_ms, READ_MS) + LONG_POLL_MS + 5_000),
        heartbeat_late_ms=max(rules.heartbeat_late_ms, interval_ms + 10_000),
        channel_expired_ms=max(rules.channel_expired_ms, interval_ms + 10_000),
        kinds=kinds,
    )


def missing_ms(rules: Rules, interval_ms: int) -> int:
    """Return how long a broker may be missed and still count as answering: one or two lost rounds cost nothing."""
    return max(rules.no_data_ms, round(BLIND_ROUNDS * interval_ms))
