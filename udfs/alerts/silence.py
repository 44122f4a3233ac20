"""Which silence keeps an alert from being notified. Times are epoch ms; the clock is the caller's."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from udfs.alerts.pattern import Labels, Matchers, is_match

MUTED_BY = "[[mutes]]"
"""The author of a mute's window."""


@dataclass(frozen=True)
class Silence:
    """No notification of alerts that match, from `starts_at_ms` until just before `ends_at_ms`."""

    silence_id: str
    matchers: Matchers
    created_by: str
    comment: str
    starts_at_ms: int
    ends_at_ms: int

    def is_active(self, now_ms: int) -> bool:
        return self.starts_at_ms <= now_ms < self.ends_at_ms

    def at(self, now_ms: int) -> "Silence | None":
        return self if self.is_active(now_ms) else None


class Quiet(Protocol):
    """A silence, or a mute whose windows recur: each window is a silence."""

    @property
    def matchers(self) -> Matchers: ...

    def at(self, now_ms: int) -> Silence | None: ...


def pick_silence(silences: Iterable[Quiet], labels: Labels, now_ms: int) -> Silence | None:
    """The silence that covers it now; of several the one that ends last."""
    active = [one for quiet in silences if (one := quiet.at(now_ms)) is not None]
    covering = [one for one in active if is_match(one.matchers, labels)]
    return max(covering, key=lambda one: (one.ends_at_ms, one.silence_id), default=None)


def pick_silence_throughout(silences: Iterable[Quiet], labels: Labels, from_ms: int, until_ms: int) -> Silence | None:
    """A silence of those that together cover every moment of [from, until); None when one moment is not covered.

    Of an empty span the moment `from_ms` is asked.
    """
    matching = [one for one in silences if is_match(one.matchers, labels)]
    at_ms = from_ms
    while True:
        silence = pick_silence(matching, labels, at_ms)
        if silence is None or silence.ends_at_ms >= until_ms:
            return silence
        at_ms = silence.ends_at_ms
