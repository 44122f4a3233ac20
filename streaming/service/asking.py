"""A cluster that has events but no clock: since when it asks for one, and how far its events lag behind ours."""

from dataclasses import dataclass, field

from streaming.service.collector_clocks import LAGGING_MS, LIVE_MS, NOTICED_MS, STEPS

REMEMBERED_SECONDS = 60.0


@dataclass
class Asking:
    """`first` and `newest` are monotonic seconds of its asking; `lags` the newest lags, each with when it was seen,
    `came` how far its events had come then.

    `is_live`: its events are of now, or lag and keep pace with it; a replay does neither. Pace is that of a minute:
    where one agent tells every half minute, ahead of the others, events come by leaps.
    """

    first: float = 0.0
    newest: float = 0.0
    is_live: bool = False
    event_ms: int = 0
    in_pace: int = 0
    lags: list[tuple[float, int]] = field(default_factory=list)
    came: list[tuple[float, int]] = field(default_factory=list)

    def note(self, now: float, newest_ms: int, now_ms: int) -> None:
        """Its newest event is of `newest_ms`, as seen at `now`, which is `now_ms` by the wall clock."""
        lag_ms = now_ms - newest_ms
        if self.came and newest_ms > self.event_ms:
            since, event_ms = self.came[0]
            is_in_pace = newest_ms - event_ms <= 2 * (now - since) * 1000 + NOTICED_MS
            self.in_pace = self.in_pace + 1 if is_in_pace else 0
        is_live = abs(lag_ms) < LIVE_MS or (abs(lag_ms) < LAGGING_MS and self.in_pace >= STEPS)
        if is_live and not self.is_live:
            self.first = now
        self.is_live = self.is_live or is_live
        self.newest, self.event_ms = now, max(self.event_ms, newest_ms)
        self.lags = [(at, lag) for at, lag in [*self.lags, (now, lag_ms)] if at + REMEMBERED_SECONDS > now]
        self.came = [(at, come) for at, come in [*self.came, (now, self.event_ms)] if at + REMEMBERED_SECONDS > now]

    def lag_ms(self) -> int:
        """The least of late; 0 where that is a batch's."""
        lag_ms = min((lag for _, lag in self.lags), default=0)
        return lag_ms // 1000 * 1000 if lag_ms >= NOTICED_MS else 0
