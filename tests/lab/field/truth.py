"""What was so, by the clients' own logs: spells of queues that nobody consumes, of twins, of groups without members.

A queue starves from the first message that comes after its last one was consumed until one is consumed again:
producers say what they sent where, consumers what their listeners returned from. Who holds the queue, and why it is
not consumed, does not matter here.
"""

import contextlib
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from tests.lab.field.client_spec import PRODUCER_KINDS
from udfs.rocketmq.model import MessageQueue


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """From `start_ms` up to `end_ms`; None: it had not ended when the logs did."""

    start_ms: int
    end_ms: int | None

    def lasted_ms(self, now_ms: int) -> int:
        return (now_ms if self.end_ms is None else self.end_ms) - self.start_ms

    def overlaps(self, start_ms: int, end_ms: int | None) -> bool:
        """Whether it shares a moment with [start_ms, end_ms)."""
        return (end_ms is None or self.start_ms < end_ms) and (self.end_ms is None or self.end_ms > start_ms)


def joined(spans: Iterable[Span], gap_ms: int = 0) -> list[Span]:
    """The same, those up to `gap_ms` apart as one, by start."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start_ms):
        last = found[-1] if found else None
        if last is None or (last.end_ms is not None and span.start_ms > last.end_ms + gap_ms):
            found.append(span)
        elif last.end_ms is not None and (span.end_ms is None or span.end_ms > last.end_ms):
            found[-1] = Span(last.start_ms, span.end_ms)
    return found


def shared(owners: Iterable[Sequence[Span]], least: int = 2) -> list[Span]:
    """Where `least` owners or more have a span; the spans of one owner do not overlap, and all have ended."""
    edges = sorted(
        (edge, step)
        for spans in owners
        for span in spans
        for edge, step in ((span.start_ms, 1), (span.end_ms, -1))
        if edge is not None
    )
    found: list[Span] = []
    count, start_ms = 0, 0
    for time_ms, step in edges:
        if step > 0 and count + 1 == least:
            start_ms = time_ms
        if step < 0 and count == least and time_ms > start_ms:
            found.append(Span(start_ms, time_ms))
        count += step
    return joined(found)


def between(spans: Sequence[Span], start_ms: int, end_ms: int) -> list[Span]:
    """The gaps of [start_ms, end_ms) that `spans`, joined before, leave; one that reaches the end has none itself."""
    found: list[Span] = []
    at_ms = start_ms
    for span in spans:
        if span.start_ms > at_ms:
            found.append(Span(at_ms, span.start_ms))
        at_ms = max(at_ms, end_ms if span.end_ms is None else span.end_ms)
    return [*found, Span(at_ms, None)] if at_ms < end_ms else found


def before(spans: Iterable[Span], ends: Sequence[Span]) -> list[Span]:
    """Each up to where one of `ends` begins; those that begin within one are left out."""
    found: list[Span] = []
    for span in spans:
        if any(end.overlaps(span.start_ms, span.start_ms + 1) for end in ends):
            continue
        starts = [end.start_ms for end in ends if end.overlaps(span.start_ms, span.end_ms)]
        found.append(Span(span.start_ms, min(starts)) if starts else span)
    return found


Key = TypeVar("Key", bound=Hashable)


def by_key(found: Iterable[tuple[Key, Span]]) -> dict[Key, list[Span]]:
    """The spans of each key, joined."""
    spans: dict[Key, list[Span]] = {}
    for key, span in found:
        spans.setdefault(key, []).append(span)
    return {key: joined(of_key) for key, of_key in spans.items()}


LINE_MS = 1_000
SILENT_MS = 4_000
"""Without a line for longer the client was frozen, dead or gone: a busy machine delays a line by a second or two."""

LONG_POLL_MS = 35_000
"""A healthy queue's newest pull is younger: a broker holds a pull for 15 s, and looks every 5 s."""

APART = frozenset({"broadcasting", "pop", "pull_assign", "grpc_push"})
"""Kinds whose queues the clients do not share out among themselves."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a client; `queues` by MessageQueue as the client wrote them, retry topics left out."""

    t: int
    client_id: str
    queues: dict[MessageQueue, dict[str, Any]]
    subscriptions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ClientLog:
    """All lines of one client, by time. A client that was started again goes on in the same log."""

    name: str
    kind: str
    group: str
    lines: list[Line]

    @property
    def is_producer(self) -> bool:
        return self.kind in PRODUCER_KINDS

    def stretches(self) -> Iterator[tuple[Line, Span]]:
        """Each line and the time it speaks for: up to the next, or a second where the next does not come in time."""
        for line, following in zip(self.lines, [*self.lines[1:], None], strict=True):
            is_next = following is not None and following.t - line.t <= SILENT_MS
            yield line, Span(line.t, following.t if is_next and following else line.t + LINE_MS)

    def lives(self) -> list[Span]:
        """When it said anything."""
        return joined(span for _, span in self.stretches())

    def queues(self) -> Iterator[tuple[Line, MessageQueue, dict[str, Any], Span]]:
        """Each queue of each line, unless it is dropped, and the time that the line speaks for."""
        for line, span in self.stretches():
            yield from ((line, mq, held, span) for mq, held in line.queues.items() if not held.get("dropped"))

    def holds(self) -> dict[MessageQueue, list[Span]]:
        """When it had each queue and pulled it; an orderly one only while it had its lock."""
        return by_key(
            (mq, span)
            for line, mq, held, span in self.queues()
            if line.t - held.get("last_pull", 0) <= LONG_POLL_MS and (self.kind != "push_orderly" or held.get("locked"))
        )

    def increases(self, counter: str) -> dict[MessageQueue, list[int]]:
        """When a queue's `counter` had grown since the line before; a counter that falls began anew."""
        last: dict[MessageQueue, int] = {}
        times: dict[MessageQueue, list[int]] = {}
        for line in self.lines:
            for mq, held in line.queues.items():
                count = int(held.get(counter) or 0)
                if count > last.get(mq, 0) or (count and count < last.get(mq, 0)):
                    times.setdefault(mq, []).append(line.t)
                last[mq] = count
        return times


def read_log(path: Path) -> ClientLog | None:
    """The log of a client; None where it has not said a word. A last line that was cut off is left out."""
    lines: list[dict[str, Any]] = []
    for text in path.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            lines.append(json.loads(text))
    if not lines:
        return None
    client, kind, group = (str(lines[0][name]) for name in ("client", "kind", "group"))
    return ClientLog(client, kind, group, sorted(map(_line, lines), key=lambda one: one.t))


def _line(fields: dict[str, Any]) -> Line:
    queues = {
        MessageQueue(held["topic"], held["broker_name"], int(held["queue_id"])): held
        for held in fields.get("queues", ())
        if not held["topic"].startswith("%")
    }
    subscriptions = fields.get("subscriptions") or {}
    return Line(
        int(fields["t"]),
        str(fields.get("client_id") or ""),
        queues,
        tuple(sorted((topic, _tags(said)) for topic, said in subscriptions.items() if not topic.startswith("%"))),
    )


def _tags(expression: str) -> str:
    """Tags in one order, without blanks: FilterAPI splits and trims them."""
    return "||".join(sorted(tag.strip() for tag in expression.split("||")))


LEAST_MS = 20_000
"""A queue that waits for less changed hands, or its listener is slow."""

OVERLAP_MS = 5_000
"""Clients whose logs overlap for less were one after the other: a line may be as old as that."""


@dataclass(frozen=True)
class Truth:
    """The logs of one play, which began at `start_ms` and whose clients were stopped at `end_ms`.

    `factor` is how much faster than in production its clocks went.
    """

    logs: list[ClientLog]
    start_ms: int
    end_ms: int
    factor: int = 1

    @cached_property
    def _sent(self) -> Mapping[MessageQueue, list[int]]:
        return _merged(log.increases("sent") for log in self.logs if log.is_producer)

    def consumers(self, group: str) -> list[ClientLog]:
        return [log for log in self.logs if log.group == group and not log.is_producer]

    def is_shared_out(self, group: str) -> bool:
        """Whether its clients share out its queues themselves, which alone is judged."""
        return not any(log.kind in APART for log in self.consumers(group))

    def starved(self, group: str) -> dict[MessageQueue, list[Span]]:
        """When messages waited in a queue of the group's topics and none was consumed."""
        consumers = self.consumers(group)
        consumed = _merged(log.increases("consumed") for log in consumers)
        topics = {topic for log in consumers for line in log.lines for topic, _ in line.subscriptions}
        found = {
            mq: _waits(sent, consumed.get(mq, []), self.end_ms, LEAST_MS // self.factor)
            for mq, sent in self._sent.items()
            if mq.topic in topics
        }
        return {mq: spans for mq, spans in found.items() if spans}

    def doubled(self, group: str) -> dict[MessageQueue, list[Span]]:
        """When two clients of the group, or more, held and pulled a queue side by side."""
        holds = [log.holds() for log in self.consumers(group)]
        mqs = {mq for of_client in holds for mq in of_client}
        found = {mq: shared([of_client.get(mq, []) for of_client in holds]) for mq in mqs}
        return {mq: spans for mq, spans in found.items() if spans}

    def is_held(self, group: str, mq: MessageQueue, span: Span) -> bool:
        """Whether living clients had the queue, undropped, for most of the time."""
        end_ms = self.end_ms if span.end_ms is None else span.end_ms
        had = joined(time for log in self.consumers(group) for _, one, _, time in log.queues() if one == mq)
        during = shared([had, [Span(span.start_ms, end_ms)]])
        return sum(one.lasted_ms(end_ms) for one in during) * 2 > end_ms - span.start_ms

    def twins(self, group: str) -> dict[str, list[Span]]:
        """ClientId to when two clients of the group carried it, or more."""
        lives = [by_key((line.client_id, span) for line, span in log.stretches()) for log in self.consumers(group)]
        found = {
            client_id: [
                span
                for span in shared([of_log.get(client_id, []) for of_log in lives])
                if span.lasted_ms(self.end_ms) > OVERLAP_MS
            ]
            for client_id in sorted({client_id for of_log in lives for client_id in of_log})
        }
        return {client_id: spans for client_id, spans in found.items() if spans}

    def nobody(self, group: str) -> list[Span]:
        """When no consumer of the group said anything, after the first one had."""
        lives = joined(span for log in self.consumers(group) for span in log.lives())
        return between(lives, lives[0].start_ms, self.end_ms) if lives else []

    def differing(self, group: str) -> list[Span]:
        """When two clients that lived subscribed differently."""
        said = by_key((line.subscriptions, span) for log in self.consumers(group) for line, span in log.stretches())
        return shared(said.values())

    def client_ids(self, name: str) -> set[str]:
        """What a client called itself; a new one after each start, where RocketMQ makes it."""
        return {line.client_id for log in self.logs if log.name == name for line in log.lines}


def read_truth(folder: Path, start_ms: int, end_ms: int, factor: int = 1) -> Truth:
    """The logs of a play's folder."""
    paths = [path for path in sorted(folder.glob("*.jsonl")) if path.name != "troubles.jsonl"]  # of older sessions
    logs = [log for path in paths if (log := read_log(path)) is not None]
    return Truth(logs, start_ms, end_ms, factor)


def _waits(sent: Iterable[int], consumed: Iterable[int], end_ms: int, least_ms: int) -> list[Span]:
    """From a message that came after one was consumed, to when the next was.

    Of two logs of a line a second the consumer's may have a message before the producer's has it.
    """
    steps = sorted([*((time_ms, False) for time_ms in sent), *((time_ms, True) for time_ms in consumed)])
    spans: list[Span] = []
    since_ms: int | None = None
    consumed_ms = 0
    for time_ms, is_consumed in steps:
        if not is_consumed:
            if since_ms is None and time_ms > consumed_ms + LINE_MS:
                since_ms = time_ms
        else:
            consumed_ms = time_ms
            if since_ms is not None and time_ms - since_ms > least_ms:
                spans.append(Span(since_ms, time_ms))
            since_ms = None
    if since_ms is not None and end_ms - since_ms > least_ms:
        spans.append(Span(since_ms, None))
    return spans


def _merged(times: Iterable[Mapping[MessageQueue, list[int]]]) -> dict[MessageQueue, list[int]]:
    found: dict[MessageQueue, list[int]] = {}
    for of_client in times:
        for mq, when in of_client.items():
            found.setdefault(mq, []).extend(when)
    return found
