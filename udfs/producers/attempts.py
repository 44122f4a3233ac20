"""A producer's send attempts to one broker, run-length: what the FaultItem rule needs of a batch, and no more.

Consecutive attempts during which the broker stays available, or stays unavailable, become one step; applying the
steps moves a FaultItem through the same states at the same times as applying every attempt (a property holds it).
No slow run crosses a multiple of MOMENT_MS, and no quick one a silence of QUIET_MS: what a FaultItem was at those
moments, and who had sent by then, is known from the steps however a log was cut.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache

from udfs.rocketmq.fault import FaultRules, compute_not_available_duration, rules_of
from udfs.rocketmq.version import ClientVersion, parse_client_version

MOMENT_MS = 5_000
"""The fleet is judged at the multiples of this, in event time."""

QUIET_MS = 30_000
"""A quick run ends when the next attempt is this much later: inside one, a send is never older than this."""


@dataclass(slots=True)
class Step:
    """A run of attempts. Quick ones (`is_slow` False) shut nothing out: their starts are 0.

    `first_start_ms` and `start_ms` are FaultItem.startTimestamp after the first and the last attempt.
    """

    is_slow: bool
    from_ms: int
    to_ms: int
    first_latency_ms: int
    latency_ms: int
    isolation: bool
    reachable: bool
    first_start_ms: int
    start_ms: int

    def moved(self, by_ms: int) -> "Step":
        """The same run, later by a multiple of MOMENT_MS."""
        return replace(
            self,
            from_ms=self.from_ms + by_ms,
            to_ms=self.to_ms + by_ms,
            first_start_ms=self.first_start_ms and self.first_start_ms + by_ms,
            start_ms=self.start_ms and self.start_ms + by_ms,
        )


@dataclass(slots=True)
class Attempts:
    """One producer's steps at one broker, oldest first."""

    client_id: str
    client_version: str
    steps: list[Step] = field(default_factory=list)

    def join(self, later: "Attempts") -> None:
        """Take in the steps of a later batch; quick runs that belong together become one."""
        self.client_version = later.client_version
        for step in later.steps:
            last = self.steps[-1] if self.steps else None
            is_one_run = last is not None and not (last.is_slow or step.is_slow)
            if last is not None and is_one_run and 0 <= step.from_ms - last.to_ms < QUIET_MS:
                self.steps[-1] = replace(last, to_ms=step.to_ms, latency_ms=step.latency_ms)
            else:
                self.steps.append(step)


def next_moment_ms(time_ms: int) -> int:
    """The first moment that knows what happened at `time_ms`."""
    return -(-time_ms // MOMENT_MS) * MOMENT_MS


@lru_cache(maxsize=1024)
def _quick_below_ms(version: ClientVersion) -> int:
    """The lowest latency that shuts a broker out."""
    table = rules_of(version).latency_table
    durations = zip(table.latency_max_ms, table.not_available_duration_ms, strict=True)
    return min(latency_ms for latency_ms, duration_ms in durations if duration_ms)


class AttemptsBuilder:
    __slots__ = ("_last_quick", "_quick_below_ms", "_rules", "_version", "attempts")

    def __init__(self, client_id: str, client_version: str) -> None:
        self._version = parse_client_version(client_version)
        self._rules: FaultRules = rules_of(self._version)
        self._quick_below_ms = _quick_below_ms(self._version)
        self.attempts = Attempts(client_id, client_version)
        self._last_quick: Step | None = None

    def quick_below(self, isolation: bool, reachable: bool) -> int:
        """An attempt that ended so is quick below this latency; 0 where none is."""
        if isolation or (self._rules.needs_reachable and not reachable):
            return 0
        return self._quick_below_ms

    def add(self, time_ms: int, latency_ms: int, isolation: bool, reachable: bool) -> None:
        """One attempt. Out of order ones only lengthen a quick run."""
        last = self._last_quick
        if latency_ms >= self.quick_below(isolation, reachable):
            self._add_slow(time_ms, latency_ms, isolation, reachable or not self._rules.needs_reachable)
        elif last is None or time_ms - last.to_ms >= QUIET_MS:
            self._last_quick = Step(False, time_ms, time_ms, latency_ms, latency_ms, False, True, 0, 0)
            self.attempts.steps.append(self._last_quick)
        elif time_ms >= last.to_ms:
            last.to_ms, last.latency_ms = time_ms, latency_ms

    def go_on(self, time_ms: int, latency_ms: int) -> None:
        """The last of quick attempts that followed the one just added, in order and QUIET_MS apart at most."""
        last = self._last_quick
        if last is not None and time_ms >= last.to_ms:
            last.to_ms, last.latency_ms = time_ms, latency_ms

    def _add_slow(self, time_ms: int, latency_ms: int, isolation: bool, reachable: bool) -> None:
        counted_ms = self._rules.latency_table.isolation_latency_ms if isolation else latency_ms
        duration_ms = compute_not_available_duration(counted_ms, self._version)
        start_ms = time_ms + duration_ms if duration_ms or not self._rules.only_extends else 0
        steps = self.attempts.steps
        last = steps[-1] if steps and self._last_quick is None else None
        if (
            last is not None
            and last.reachable
            and reachable
            and last.isolation == isolation
            and last.to_ms <= time_ms < last.start_ms
            and duration_ms
            and next_moment_ms(time_ms) == next_moment_ms(last.to_ms)
        ):
            last.to_ms, last.latency_ms = time_ms, latency_ms
            last.start_ms = max(last.start_ms, start_ms) if self._rules.only_extends else start_ms
            return
        steps.append(Step(True, time_ms, time_ms, latency_ms, latency_ms, isolation, reachable, start_ms, start_ms))
        self._last_quick = None
