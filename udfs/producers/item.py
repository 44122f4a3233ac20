"""One producer's FaultItem of one broker as we keep it, moved by the steps of its attempts and by time.

It is available from `start_timestamp_ms` on, whenever that is noticed; in 5.1.4 only if it is reachable.
"""

from dataclasses import dataclass

from udfs.producers.attempts import Step
from udfs.rocketmq.fault import rules_of


@dataclass(frozen=True)
class Turn:
    """An item became unavailable, or available again, at its own event time, with the values that decided it."""

    current_latency_ms: int
    isolation: bool
    start_timestamp_ms: int
    available: bool
    changed_at_ms: int


@dataclass
class Item:
    """`seen_ms` is its newest attempt; `slow_ms` and `slow_latency_ms` its newest slow or failed one and its latency.

    `out_ms` and `back_ms`: when it last became unavailable, and available again.
    """

    client_version: str
    current_latency_ms: int
    isolation: bool
    start_timestamp_ms: int
    reachable: bool
    is_available: bool
    seen_ms: int
    slow_ms: int = 0
    slow_latency_ms: int = 0
    out_ms: int = 0
    back_ms: int = 0

    @classmethod
    def of(cls, client_version: str, step: Step, seen_ms: int) -> "Item":
        """A broker that nothing bad is remembered of."""
        return cls(client_version, step.latency_ms, False, 0, True, True, seen_ms)

    def expire(self, now_ms: int) -> Turn | None:
        """Its time has come and it may be used. Told is the latency that kept it out: of a run of quick attempts since,
        which change nothing, nobody knows the one at that moment.
        """
        if self.is_available or not self.reachable or now_ms < self.start_timestamp_ms:
            return None
        return self._turn(True, self.start_timestamp_ms, self.slow_latency_ms)

    def apply(self, client_version: str, step: Step) -> Turn | None:
        """MQFaultStrategy.updateFaultItem for each attempt of the step. Up to 5.1.3 an old step changes nothing."""
        only_extends = rules_of(client_version).only_extends
        if step.to_ms < self.seen_ms and not only_extends:
            return None
        self.client_version, self.seen_ms = client_version, max(self.seen_ms, step.to_ms)
        self.reachable = step.reachable
        turn = self._apply_slow(step, only_extends) if step.is_slow else self._apply_quick(step, only_extends)
        self.current_latency_ms = step.latency_ms
        return turn

    def _apply_quick(self, step: Step, only_extends: bool) -> Turn | None:
        if only_extends and self.start_timestamp_ms > step.from_ms:
            return None
        turn = None if self.is_available else self._turn(True, step.from_ms, step.first_latency_ms)
        if not only_extends:
            self.start_timestamp_ms = step.to_ms
        return turn

    def _apply_slow(self, step: Step, only_extends: bool) -> Turn | None:
        turn = None
        known_ms = self.start_timestamp_ms if only_extends else 0
        if self.is_available and (max(known_ms, step.first_start_ms) > step.from_ms or not step.reachable):
            self.isolation, self.start_timestamp_ms = step.isolation, max(known_ms, step.first_start_ms)
            turn = self._turn(False, step.from_ms, step.first_latency_ms)
        self.isolation, self.slow_ms, self.slow_latency_ms = step.isolation, step.to_ms, step.latency_ms
        self.start_timestamp_ms = max(known_ms, step.start_ms)
        return turn

    def _turn(self, available: bool, at_ms: int, latency_ms: int) -> Turn:
        self.is_available = available
        if available:
            self.isolation, self.back_ms = False, at_ms
        else:
            self.out_ms = at_ms
        return Turn(latency_ms, self.isolation, self.start_timestamp_ms, available, at_ms)
