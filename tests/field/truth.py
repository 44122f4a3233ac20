"""What was so, by the clients' own logs: spells of queues that nobody consumes, of twins, of groups without members.

A queue starves from the first message that comes after its last one was consumed until one is consumed again:
producers say what they sent where, consumers what their listeners returned from. Who holds the queue, and why it is
not consumed, does not matter here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.field.spans import Span, between, joined, shared
from tests.field.truth_log import APART, LINE_MS, ClientLog, read_log
from udfs.rocketmq.model import MessageQueue

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
        had = joined(held for log in self.consumers(group) for held in log.tables().get(mq, ()))
        return (
            sum(
                min(one.end_ms or end_ms, end_ms) - max(one.start_ms, span.start_ms)
                for one in had
                if one.overlaps(span.start_ms, end_ms)
            )
            * 2
            > end_ms - span.start_ms
        )

    def twins(self, group: str) -> dict[str, list[Span]]:
        """ClientId to when two clients of the group carried it, or more."""
        lives: dict[str, list[list[Span]]] = {}
        for log in self.consumers(group):
            of_log: dict[str, list[Span]] = {}
            for line, span in log.stretches():
                of_log.setdefault(line.client_id, []).append(span)
            for client_id, spans in of_log.items():
                lives.setdefault(client_id, []).append(joined(spans))
        found = {
            client_id: [span for span in shared(owners) if span.lasted_ms(self.end_ms) > OVERLAP_MS]
            for client_id, owners in lives.items()
        }
        return {client_id: spans for client_id, spans in found.items() if spans}

    def nobody(self, group: str) -> list[Span]:
        """When no consumer of the group said anything, after the first one had."""
        lives = joined(span for log in self.consumers(group) for span in log.lives())
        return between(lives, lives[0].start_ms, self.end_ms) if lives else []

    def differing(self, group: str) -> list[Span]:
        """When two clients that lived subscribed differently."""
        said: dict[tuple[tuple[str, str], ...], list[Span]] = {}
        for log in self.consumers(group):
            for line, span in log.stretches():
                said.setdefault(line.subscriptions, []).append(span)
        return shared([joined(spans) for spans in said.values()])

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
