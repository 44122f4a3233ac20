"""What had to be said and what might be said of a play: onsets by the clients' logs, causes by the scenario's file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.field.played import Played
from tests.field.scenario import Expects
from tests.field.spans import Span, before, joined
from tests.field.truth import Truth
from tests.score.match import LATE_MS
from tests.score.truths import ALSO, BOUNDS_MS, BOUNDS_OF_KIND_MS, GAP_MS, Fact
from udfs.rocketmq.model import MessageQueue

SLACK_MS = 35_000
"""Beyond the bound: three clock events, as in the score, and two rounds of the collector. What ends sooner need not be
said."""

PASSING_MS = 80_000
"""What the file does not expect and lasts no longer passes by itself: a roll-out, a route that clients learn."""

TOLD_BY_LOGS = frozenset({"duplicate_client_id", "inconsistent_subscription", "group_offline"})
"""Kinds whose onset and end the clients' logs show; that of the others is the trouble's own time."""

_BY_COMMITS = (frozenset[str](), frozenset({"consume_stopped"}))
"""To a collector every starved queue is one whose commits stand still, as in the score."""

Spans = Mapping[MessageQueue, Sequence[Span]]


@dataclass
class Facts:
    """`surprises`: the logs show what the file does not expect. `absent`: what the file expects did not happen."""

    facts: list[Fact] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


def facts_of(played: Played, truth: Truth) -> Facts:
    """All that was so in a play."""
    return _Finder(played, truth).find()


class _Finder:
    def __init__(self, played: Played, truth: Truth) -> None:
        self._played, self._truth = played, truth
        self._groups = [f"{group}{played.suffix}" for group in sorted(played.scenario.group_names)]
        self._happened: set[int] = set()
        self._found = Facts()

    def find(self) -> Facts:
        for group in self._groups:
            if self._truth.is_shared_out(group):
                self._add_queues("starved_queue", group, self._truth.starved(group))
                self._add_queues("double_consumed_queue", group, self._truth.doubled(group))
            if not self._is_broadcasting(group):
                for client_id, spans in self._truth.twins(group).items():
                    self._add_spans("duplicate_client_id", group, spans, client_id)
            self._add_spans("inconsistent_subscription", group, self._truth.differing(group))
            self._add_spans("group_offline", group, self._truth.nobody(group))
        for number, expected in enumerate(self._played.scenario.expects):
            if expected.kind not in ("starved_queue", "double_consumed_queue", *TOLD_BY_LOGS):
                self._found.facts.extend(self._as_expected(expected))
            elif expected.required and number not in self._happened:
                self._found.absent.append(f"{self._played.name}: {expected.kind} {expected.cause or ''}".rstrip())
        return self._found

    def _add_queues(self, kind: str, group: str, spans_of: Spans) -> None:
        for mq, all_spans in sorted(spans_of.items()):
            spans = before(all_spans, self._played.down(mq.broker_name))
            for spell in joined(spans, GAP_MS // self._played.factor):
                longest_ms = max(
                    span.lasted_ms(self._truth.end_ms) for span in spans if span.overlaps(spell.start_ms, spell.end_ms)
                )
                fitting = self._expecting(kind, group, spell, mq)
                if not fitting and longest_ms <= PASSING_MS // self._played.factor:
                    continue
                fact = self._fact(kind, group, spell, fitting, longest_ms, mq)
                self._found.facts.append(fact)

    def _add_spans(self, kind: str, group: str, spans: Iterable[Span], client_id: str | None = None) -> None:
        for span in joined(spans, GAP_MS // self._played.factor):
            fitting = self._expecting(kind, group, span)
            lasted_ms = span.lasted_ms(self._truth.end_ms)
            if fitting or lasted_ms > PASSING_MS // self._played.factor:
                self._found.facts.append(self._fact(kind, group, span, fitting, lasted_ms, client_id=client_id))

    def _fact(
        self,
        kind: str,
        group: str,
        span: Span,
        fitting: Sequence[tuple[int, Expects]],
        longest_ms: int,
        mq: MessageQueue | None = None,
        client_id: str | None = None,
    ) -> Fact:
        self._happened.update(number for number, _ in fitting)
        firsts = [one for _, one in fitting if one.required] or [one for _, one in fitting]
        cause = firsts[0].cause if firsts else None
        causes = {one.cause for _, one in fitting if one.cause}
        also = causes.union(*(ALSO.get(one, frozenset()) for one in causes), _BY_COMMITS[kind == "starved_queue"])
        bound_ms = BOUNDS_MS[cause] if kind == "starved_queue" and cause else BOUNDS_OF_KIND_MS.get(kind, 0)
        must_last_ms = (bound_ms + SLACK_MS) // self._played.factor
        if not fitting:
            self._found.surprises.append(self._describe(kind, group, mq, client_id, span))
        return Fact(
            kind,
            cause,
            group,
            mq.topic if mq else None,
            mq.broker_name if mq else None,
            client_id,
            f"{mq.broker_name}:{mq.queue_id}" if mq else None,
            span.start_ms,
            span.end_ms,
            required=any(one.required for _, one in fitting) and longest_ms > must_last_ms,
            also=frozenset(also - {cause}),
        )

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
        """One a ClientId, where a client is named."""
        own = self._played.own
        start_ms, end_ms = self._played.window_ms(expected)
        client_ids = self._truth.client_ids(expected.client) if expected.client else {expected.client_id}
        for client_id in sorted(client_ids, key=str):
            yield Fact(
                expected.kind,
                expected.cause,
                own(expected.consumer_group),
                own(expected.topic),
                expected.broker_name,
                client_id,
                None,
                start_ms,
                end_ms,
                expected.required,
                ALSO.get(expected.cause or "", frozenset()),
            )

    def _is_broadcasting(self, group: str) -> bool:
        return any(log.kind == "broadcasting" for log in self._truth.consumers(group))

    def _describe(self, kind: str, group: str, mq: MessageQueue | None, client_id: str | None, span: Span) -> str:
        who = f"{mq.topic} {mq.broker_name}:{mq.queue_id}" if mq else client_id or ""
        start_s = (span.start_ms - self._played.start_ms) / 1000
        end_s = "" if span.end_ms is None else f"{(span.end_ms - self._played.start_ms) / 1000:.0f}"
        return f"{self._played.name}: {kind} {group} {who} {start_s:.0f}-{end_s} s, which the file does not expect"
