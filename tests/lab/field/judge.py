"""The alerts of a batch of plays against what was so in them: tallies a kind and cause, delays, false pages.

Onsets and ends are by the clients' logs, causes and what else is allowed by the scenario's file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from tests.lab.field.played import Played
from tests.lab.field.scenario import Expects
from tests.lab.field.truth import Span, Truth, before, joined
from tests.lab.score.claims import claims_of, pages_of
from tests.lab.score.fact import ALSO, Fact
from tests.lab.score.match import UNFOUNDED, Key, Tally, compare, verdicts_of
from tests.lab.score.truths import DOWN, GAP_MS, early_signs, under_broker
from udfs.rocketmq.model import MessageQueue

ROUNDS_MS = 20_000
"""Two rounds of the collector at its default interval. A fact that ends within its bound and these need not be
reported."""

LATE_MS = 60_000
"""A spell that the file expects may begin this long after the time that the file gives."""

PASSING_MS = 80_000
"""What the file does not expect and lasts no longer passes by itself: a roll-out, a route that clients learn. Only
the time after second 0 counts: before it the clients start, one after the other."""

TOLD_BY_LOGS = frozenset({"duplicate_client_id", "inconsistent_subscription", "group_offline"})
"""Kinds whose onset and end the clients' logs show; that of the others is the trouble's own time."""

OF_QUEUES = ("starved_queue", "stalled_queue", "double_consumed_queue")
"""Kinds of single queues, which the clients' logs show too. A stalled queue is the early sign of one that starves."""

_BY_COMMITS = (frozenset[str](), frozenset({"consume_stopped"}))
"""To a collector every starved queue is one whose commits stand still, as in the score."""


class Facts:
    """All that was true in a play.

    `surprises`: the logs show what the file does not expect. `absent`: what the file expects did not happen.
    """

    def __init__(self, played: Played, truth: Truth) -> None:
        self.facts, self.surprises, self.absent = list[Fact](), list[str](), list[str]()
        self._played, self._truth = played, truth
        self._happened: set[int] = set()
        for group in (f"{group}{played.suffix}" for group in sorted(played.scenario.group_names)):
            if truth.is_shared_out(group):
                for kind, spans_of in (("starved_queue", truth.starved), ("double_consumed_queue", truth.doubled)):
                    for mq, spans in sorted(spans_of(group).items()):
                        self._add(kind, group, spans, mq)
            if not any(log.kind == "broadcasting" for log in truth.consumers(group)):
                for client_id, spans in truth.twins(group).items():
                    self._add("duplicate_client_id", group, spans, client_id=client_id)
            self._add("inconsistent_subscription", group, truth.differing(group))
            self._add("group_offline", group, truth.nobody(group))
        for number, expected in enumerate(self._played.scenario.expects):
            if expected.kind not in (*OF_QUEUES, *TOLD_BY_LOGS):
                self.facts.extend(self._as_expected(expected))
            elif expected.required and number not in self._happened:
                self.absent.append(f"{self._played.name}: {expected.kind} {expected.cause or ''}".rstrip())
        self.facts.extend(self._under_brokers([fact for fact in self.facts if fact.kind in DOWN]))

    def _under_brokers(self, down: Sequence[Fact]) -> Iterator[Fact]:
        """Yield what the file allows of the queues of a broker that is down, which starve for its producers, too."""
        for expected in self._played.scenario.expects:
            if expected.kind in OF_QUEUES and not expected.required:
                for fact, broker in product(self._as_expected(expected), down):
                    if broker.broker_name:
                        yield under_broker(fact, broker)

    def _add(
        self,
        kind: str,
        group: str,
        spans: Sequence[Span],
        mq: MessageQueue | None = None,
        client_id: str | None = None,
    ) -> None:
        """A fact for each spell that the file expects, or that does not pass by itself."""
        now_ms, factor = self._truth.end_ms, self._played.factor
        if mq:
            spans = before(spans, self._played.down(mq.broker_name))
        for spell in joined(spans, GAP_MS // factor):
            own = [span for span in spans if span.overlaps(spell.start_ms, spell.end_ms)] if mq else [spell]
            longest = max(own, key=lambda span: span.lasted_ms(now_ms))
            longest_ms = longest.lasted_ms(now_ms)
            fitting = self._expecting(kind, group, spell, mq)
            in_play_ms = replace(spell, start_ms=max(spell.start_ms, self._played.start_ms)).lasted_ms(now_ms)
            if not fitting and longest_ms <= PASSING_MS // factor:
                continue
            if not fitting and in_play_ms > PASSING_MS // factor:
                self.surprises.append(self._describe(kind, group, mq, client_id, spell))
            self._happened.update(number for number, _ in fitting)
            firsts = sorted((one for _, one in fitting), key=lambda one: not one.required)
            cause = firsts[0].cause if firsts else None
            causes = {one.cause for one in firsts if one.cause}
            also = causes.union(*(ALSO.get(one, frozenset()) for one in causes), _BY_COMMITS[kind == "starved_queue"])
            early = frozenset[str]()
            if kind == "starved_queue":
                early = early_signs(causes, expects_stalled=bool(self._expecting("stalled_queue", group, spell, mq)))
            fact = Fact(
                kind,
                cause,
                group,
                mq.topic if mq else None,
                mq.broker_name if mq else None,
                client_id,
                f"{mq.broker_name}:{mq.queue_id}" if mq else None,
                spell.start_ms,
                spell.end_ms,
                required=False,
                also=frozenset(also - {cause}),
                early=early,
                comings_ms=tuple(span.start_ms for span in own),
                due_ms=longest.start_ms,
                **self._clocks(),
            )
            is_required = any(one.required for one in firsts) and longest_ms > fact.bound_ms + fact.patience_ms
            self.facts.append(replace(fact, required=is_required))

    def _clocks(self) -> dict[str, Any]:
        """How fast this play went, and when it ended."""
        factor = self._played.factor
        return {"patience_ms": ROUNDS_MS // factor, "factor": factor, "known_ms": self._played.end_ms}

    def _expecting(
        self, kind: str, group: str, span: Span, mq: MessageQueue | None = None
    ) -> list[tuple[int, Expects]]:
        """The expectations of the file that such a span fits, with their numbers."""
        own = self._played.own
        found = []
        for number, one in enumerate(self._played.scenario.expects):
            start_ms, end_ms = self._played.window_ms(one)
            fits = (
                one.kind == kind
                and own(one.consumer_group) in (None, group)
                and (mq is None or own(one.topic) in (None, mq.topic))
                and (mq is None or one.broker_name in (None, mq.broker_name))
                and (mq is None or one.is_held in (None, self._truth.is_held(group, mq, span)))
            )
            if fits and span.overlaps(start_ms, None if end_ms is None else end_ms + LATE_MS):
                found.append((number, one))
        return found

    def _as_expected(self, expected: Expects) -> Iterator[Fact]:
        """Yield a fact for each ClientId where a client is named, and for each machine whose clock is off."""
        own = self._played.own
        start_ms, end_ms = self._played.window_ms(expected)
        client_ids = self._truth.client_ids(expected.client) if expected.client else {expected.client_id}
        machines = self._skewed() if expected.kind == "clock_skew" else {None}
        for client_id, machine in product(sorted(client_ids, key=str), sorted(machines, key=str)):
            yield replace(
                expected.fact(start_ms, end_ms),
                consumer_group=own(expected.consumer_group),
                topic=own(expected.topic),
                client_id=client_id,
                machine=machine,
                **self._clocks(),
            )

    def _skewed(self) -> set[str | None]:
        """The clients whose clock the file sets wrong."""
        names = [one.name for one in self._played.scenario.clients if one.clock_skew_s]
        return {f"client:{client_id}" for name in names for client_id in self._truth.client_ids(name)} or {None}

    def _describe(self, kind: str, group: str, mq: MessageQueue | None, client_id: str | None, span: Span) -> str:
        who = f"{mq.topic} {mq.broker_name}:{mq.queue_id}" if mq else client_id or ""
        start_s = (span.start_ms - self._played.start_ms) / 1000
        end_s = "" if span.end_ms is None else f"{(span.end_ms - self._played.start_ms) / 1000:.0f}"
        return f"{self._played.name}: {kind} {group} {who} {start_s:.0f}-{end_s} s, which the file does not expect"


Row = Mapping[str, Any]

SHORT_OF = ("surprises", "absent", "unended", "afterwards", "false_pages")
"""Fields of a verdict that are empty where all is right."""


@dataclass
class Verdict:
    """What became of plays that were played side by side.

    tallies      (kind, cause) to what was told, missed and wrong
    surprises    what the clients' logs show and no file expects
    absent       what a file expects and did not happen
    unended      alerts that did not end for the reason the file gives
    afterwards   pages of a play that came after its groups and topics were deleted
    false_pages  pages of quiet plays
    quiet_ms     how long quiet plays were played
    """

    tallies: dict[Key, Tally] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    unended: list[str] = field(default_factory=list)
    afterwards: list[str] = field(default_factory=list)
    false_pages: list[str] = field(default_factory=list)
    quiet_ms: int = 0

    @property
    def is_right(self) -> bool:
        is_told = not any(tally.missed or tally.wrong for tally in self.tallies.values())
        return is_told and not any(getattr(self, name) for name in SHORT_OF)

    def add(self, other: "Verdict") -> None:
        for key, tally in other.tallies.items():
            self.tallies.setdefault(key, Tally()).add(tally)
        for name in SHORT_OF:
            getattr(self, name).extend(getattr(other, name))
        self.quiet_ms += other.quiet_ms


def judge(plays: Sequence[tuple[Played, Truth]], alerts: Iterable[Row]) -> Verdict:
    """`alerts` are rows of the table with `changed_at` in ms, by time; those of other plays are left out.

    Rows of no group belong to all plays, which is why one that hurts brokers is played alone.
    """
    verdict = Verdict()
    start_ms = min(played.start_ms for played, _ in plays)
    kept = list(alerts)
    rows = [row for row in kept if _is_of(row, plays, start_ms)]
    found_of = [Facts(played, truth) for played, truth in plays]
    facts = [fact for found in found_of for fact in found.facts]
    claims = claims_of(rows)
    explained = {claim.incident_id for claim, one in verdicts_of(claims, facts).items() if one not in UNFOUNDED}
    for (played, _), found in zip(plays, found_of, strict=True):
        verdict.surprises += found.surprises
        verdict.absent += found.absent
        verdict.unended += _unended(played, rows)
        verdict.afterwards += _afterwards(played, kept)
        if played.scenario.is_quiet:
            verdict.quiet_ms += played.end_ms - played.start_ms
            paged = pages_of(
                row
                for row in rows
                if _is_groups(row, played) or (_is_groupless(row, plays) and row["incident_id"] not in explained)
            )
            verdict.false_pages += [f"{played.name}: {row['kind']} {row['cause']}" for row in paged.values()]
    name = plays[0][0].name if len(plays) == 1 else f"{len(plays)} plays"
    verdict.tallies = compare(claims, facts, name, start_ms)
    return verdict


def _is_of(row: Row, plays: Sequence[tuple[Played, Truth]], start_ms: int) -> bool:
    """A row of one of the groups up to its play's end, or of no group while any is played."""
    if _is_groupless(row, plays):
        return start_ms <= int(row["changed_at"]) <= max(played.end_ms for played, _ in plays)
    return any(_is_groups(row, played) and int(row["changed_at"]) <= played.end_ms for played, _ in plays)


def _is_groupless(row: Row, plays: Sequence[tuple[Played, Truth]]) -> bool:
    """Whether the row is of no group and of none of the topics."""
    return row["consumer_group"] is None and not any(_is_groups(row, played) for played, _ in plays)


def _is_groups(row: Row, played: Played) -> bool:
    return played.has(row["consumer_group"]) or played.has(row["topic"])


def _afterwards(played: Played, rows: Iterable[Row]) -> list[str]:
    """Pages of its groups and topics that came when they were gone."""
    paged = pages_of(row for row in rows if _is_groups(row, played))
    return [
        f"{played.name}: {row['kind']} {row['cause']} {(row['changed_at'] - played.end_ms) / 1000:.0f} s after its end"
        for row in paged.values()
        if row["changed_at"] > played.end_ms
    ]


def _unended(played: Played, rows: Iterable[Row]) -> list[str]:
    """Expectations with `ends_with` whose alert has no RESOLVED row for that reason."""
    missing = []
    for expected in played.scenario.expects:
        group = played.own(expected.consumer_group)
        reasons = {
            row["reason"]
            for row in rows
            if row["kind"] == expected.kind and row["state"] == "RESOLVED" and group in (None, row["consumer_group"])
        }
        if expected.ends_with and expected.ends_with not in reasons:
            missing.append(f"{played.name}: {expected.kind} ended by {sorted(reasons)}, not {expected.ends_with}")
    return missing
