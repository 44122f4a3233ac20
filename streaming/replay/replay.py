"""Replay of recorded events by the query's code under other rules, and the pages it would send."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from streaming.replay.pages import Page, Pages
from streaming.replay.recorded import Slice
from streaming.replay.stream import Stream
from udfs.alerts.rulebook import CANARY_CLUSTER, Rulebook

WARM_UP_MS = 900_000
"""Length of the warm-up before the span. Heartbeats and routes come every 30 s, and the second longest hold, a client's
expired pulls and the settling after them, takes 4 minutes."""

MOST_TRANSITIONS = 100_000


@dataclass(frozen=True)
class Asked:
    """The span [from, to) in epoch ms, and a filter on alerts; None means all."""

    from_ms: int
    to_ms: int
    cluster: str | None = None
    consumer_group: str | None = None

    @property
    def warm_up_ms(self) -> int:
        """Return the time of the first event to read."""
        return self.from_ms - WARM_UP_MS

    def is_for(self, row: dict[str, Any]) -> bool:
        if self.cluster is None and row["cluster"] == CANARY_CLUSTER:
            return False
        return self.cluster in (None, row["cluster"]) and self.consumer_group in (None, row["consumer_group"])


@dataclass
class Replayed:
    """The result. `transitions` are the alert rows of the span, `messages` the number of events with the warm-up."""

    pages: list[Page] = field(default_factory=list)
    transitions: list[dict[str, Any]] = field(default_factory=list)
    messages: int = 0
    first_ms: int | None = None

    def is_cut_short(self, asked: Asked) -> bool:
        """Return whether the first event is later than the start of the span."""
        return self.first_ms is not None and self.first_ms > asked.from_ms


def replay(
    slices: Iterable[Slice], rulebook: Rulebook, asked: Asked, on_progress: Callable[[float], None] = lambda _: None
) -> Replayed:
    """Process the slices. Memory holds a slice, the state, and the transitions of the span."""
    stream, pages, replayed = Stream(rulebook), Pages(), Replayed()
    for part in slices:
        if part.messages and replayed.first_ms is None:
            replayed.first_ms = part.messages[0]["ingest_time_ms"]
        replayed.messages += len(part.messages)
        alerts = stream.work_through(part.messages).get("alerts", [])
        for row in sorted(filter(asked.is_for, alerts), key=lambda row: row["changed_at"]):
            pages.add(row)
            if asked.from_ms <= row["changed_at"] < asked.to_ms and len(replayed.transitions) < MOST_TRANSITIONS:
                replayed.transitions.append(row)
        on_progress(part.share)
    replayed.pages = pages.paged()
    return replayed
