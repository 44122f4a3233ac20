"""A fact of a run: what is true, from when until when, and how soon the protocol lets a watcher know it."""

from dataclasses import dataclass
from functools import cache

from streaming.queries.rulebook import default_rules
from tests.lab.score.bounds import BOUNDS_MS, BOUNDS_OF_KIND_MS, RECOVERY_MS

NEVER_MS = 1 << 62

SLACK_MS = 15_000
"""An alert may fire this much after its bound and two poll rounds: three clock events of 5 s."""


@dataclass(frozen=True)
class Statement:
    """What is said of one subject: of which kind, for what cause, and from when until when."""

    kind: str
    cause: str | None
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    client_id: str | None
    queue: str | None
    start_ms: int
    end_ms: int | None


@dataclass(frozen=True)
class Fact(Statement):
    """One thing that is true from `start_ms` up to `end_ms` (None: to the end of the play).

    A label of None matches any claim. `required` facts must be detected, others may be.

    also         other causes that are as true of it
    early        causes of a `stalled_queue` that may announce it
    clients      ClientIds that may be blamed; empty: any
    machine      of a clock: "role:name", of which either may be empty
    comings_ms   when it came: more than one where its stretches were joined
    due_ms       the start of its first stretch that is long enough to be known; None: `start_ms`
    patience_ms  two poll rounds, and what is lost on the way
    later_ms     how much later it can be known, as other evidence must show it
    factor       how much faster than production's the clocks of the clients ran
    known_ms     the end of the play: what must happen after it cannot be judged
    blind_ms     until when a broker gave no data after its end, which holds the alert open; NEVER_MS: to the play's end
    """

    required: bool
    also: frozenset[str] = frozenset()
    early: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    machine: str | None = None
    comings_ms: tuple[int, ...] = ()
    due_ms: int | None = None
    patience_ms: int = 0
    later_ms: int = 0
    factor: int = 1
    known_ms: int = NEVER_MS
    blind_ms: int = 0

    @property
    def onset_ms(self) -> int:
        """From when its detection is timed."""
        return self.start_ms if self.due_ms is None else self.due_ms

    @property
    def bound_ms(self) -> int:
        """From onset until it can be known."""
        of_cause = BOUNDS_MS.get(self.cause or "") if self.kind == "starved_queue" else None
        bound_ms = BOUNDS_OF_KIND_MS.get(self.kind, 0) if of_cause is None else of_cause
        return bound_ms // self.factor

    @property
    def detect_by_ms(self) -> int:
        """The latest moment for its alert to fire."""
        return self.onset_ms + self.bound_ms + self.later_ms + self.patience_ms + SLACK_MS // self.factor

    @property
    def begin_by_ms(self) -> int:
        """The latest moment for a claim of it to begin: a poll that was made before its end may be read after it."""
        return NEVER_MS if self.end_ms is None else self.end_ms + self.patience_ms

    @property
    def resolve_by_ms(self) -> int:
        """The latest moment for its alert to resolve; NEVER_MS while it lasts."""
        if self.end_ms is None or self.blind_ms == NEVER_MS:
            return NEVER_MS
        end_ms = max(self.end_ms, self.blind_ms)
        return end_ms + (RECOVERY_MS.get(self.kind, 0) + _hold_ms(self.kind)) // self.factor + self.patience_ms


@cache
def _hold_ms(kind: str) -> int:
    """How long a finding of a kind must stay away."""
    return default_rules().of_kind(kind).recovering_ms


ALSO = {"pull_stopped": frozenset({"consume_stopped"}), "consume_stopped": frozenset({"pull_stopped"})}
"""Queues that are not pulled are not consumed; a client with a full cache, or a suspended one, does not pull."""
