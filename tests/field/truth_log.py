"""The clients' own logs, line by line: what each holds, has pulled, consumed and sent, every second."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.field.client_spec import PRODUCER_KINDS
from tests.field.spans import Span, joined
from udfs.rocketmq.model import MessageQueue

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

    def tables(self) -> dict[MessageQueue, list[Span]]:
        """When it had each queue, undropped, whether it pulled it or not."""
        spans: dict[MessageQueue, list[Span]] = {}
        for line, span in self.stretches():
            for mq, held in line.queues.items():
                if not held.get("dropped"):
                    spans.setdefault(mq, []).append(span)
        return {mq: joined(found) for mq, found in spans.items()}

    def holds(self) -> dict[MessageQueue, list[Span]]:
        """When it had each queue and pulled it; an orderly one only while it had its lock."""
        spans: dict[MessageQueue, list[Span]] = {}
        for line, span in self.stretches():
            for mq, held in line.queues.items():
                is_pulled = line.t - held.get("last_pull", 0) <= LONG_POLL_MS
                if is_pulled and not held.get("dropped") and (self.kind != "push_orderly" or held.get("locked")):
                    spans.setdefault(mq, []).append(span)
        return {mq: joined(found) for mq, found in spans.items()}

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
    lines: list[Line] = []
    first: dict[str, Any] = {}
    for text in path.read_text().splitlines():
        try:
            fields = json.loads(text)
        except json.JSONDecodeError:
            continue
        first = first or fields
        lines.append(_line(fields))
    if not first:
        return None
    return ClientLog(
        str(first["client"]), str(first["kind"]), str(first["group"]), sorted(lines, key=lambda one: one.t)
    )


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
