"""What people said need not be told, as the relay asks it. The canary is never silenced: its absence pages."""

from collections.abc import Iterable

from streaming.oncall.notice import Notice
from streaming.oncall.transition import match_labels
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.silence import Quiet, Silence, next_change_ms, pick_silence, pick_silence_throughout


class Silences:
    """All silences, over or not, and the mutes of the settings."""

    def __init__(self, mutes: Iterable[Quiet] = ()) -> None:
        self._mutes: tuple[Quiet, ...] = tuple(mutes)
        self._all = self._mutes
        self._is_new = True
        self._asked_at_ms = 0
        self._change_at_ms: int | None = None

    def replace(self, silences: Iterable[Silence]) -> None:
        self._all, self._is_new = (*self._mutes, *silences), True

    def has_changed(self, now_ms: int) -> bool:
        """Whether one began or ended, others were given, or the clock was set back, since this was asked last."""
        is_later = self._change_at_ms is not None and now_ms >= self._change_at_ms
        has_changed = self._is_new or is_later or now_ms < self._asked_at_ms
        self._asked_at_ms, self._is_new = now_ms, False
        if has_changed:
            self._change_at_ms = next_change_ms(self._all, now_ms)
        return has_changed

    def pick(self, notice: Notice, now_ms: int) -> Silence | None:
        """The one that covers it now."""
        if notice.cluster == CANARY_CLUSTER:
            return None
        return pick_silence(self._all, match_labels(notice), now_ms)

    def pick_throughout(self, notice: Notice, from_ms: int, until_ms: int) -> Silence | None:
        """One of those that together cover all of [from, until)."""
        if notice.cluster == CANARY_CLUSTER:
            return None
        return pick_silence_throughout(self._all, match_labels(notice), from_ms, until_ms)
