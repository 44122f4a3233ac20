"""Clock events of `run` for clusters without a live collector. Without clock events, no group is evaluated.

Clusters with agents only: the query reports events without clock events (`clock_needed` rows). If the events are
recent, the cluster gets a clock event every `clock.interval_seconds` until a collector publishes. After a restart the
query reports it again with the next event.

Clusters with a dead collector: no clock event for `clock.collector_timeout_seconds`. The clock events of `run` then say
that no broker answered, so missing data does not count as silence of clients. A lag of the query must not look like a
dead collector, so Kafka's newest clock events are read first, and at each start.

A forgotten cluster gets no clock events until it gives data again.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import structlog
from kafka.errors import KafkaError

from conf.settings import Settings
from schemas.decode import decode
from schemas.events import CLOCKS
from streaming.kafka_io.publisher import Publisher, PublishError
from streaming.kafka_io.tail import Tail
from streaming.queries.events import CLUSTER, FORGET, RUN
from streaming.queries.rows import CLOCK_HEARD, CLOCK_NEEDED
from streaming.queries.written_batch import WrittenBatch
from streaming.text.times import DAY, wall_ms
from streaming.warehouse.rows import Rows
from udfs.alerts.rulebook import CANARY_CLUSTER

LIVE_MS = 60_000
"""Events at most this far from the wall clock are current."""

LAGGING_MS = 5_400_000
"""Events at most this far are current too, if they keep pace with it: their clock is behind, or they come late. Events
further off are a replay, whose time `run` must not advance."""

STEPS = 3
"""Steps that must keep pace before a clock that is far off counts as current."""

NOTICED_MS = 10_000
"""A smaller lag comes from the batches."""

ROUNDS = 3
"""Missed rounds after which a slow clock is silent."""

FORGOTTEN_MS = DAY
"""A cluster with a clock silent for this long counts as gone."""


def _is_current(lag_ms: int, in_pace: int) -> bool:
    return abs(lag_ms) < LIVE_MS or (abs(lag_ms) < LAGGING_MS and in_pace >= STEPS)


def _noticed(lag_ms: int) -> int:
    """Return the lag in full seconds; 0 if it comes from the batches."""
    return lag_ms // 1000 * 1000 if lag_ms >= NOTICED_MS else 0


@dataclass
class CollectorClock:
    """A collector's clock: its newest event, when that arrived, and the brokers that it asked.

    `is_live`: it keeps pace with the wall clock: its events come within LIVE_MS of their time, and two of them at most
    twice as fast as real time. A replay or a simulated past ends near now as well, but much faster; its silence
    afterwards means nothing.
    """

    event_time_ms: int
    at_ms: int
    brokers: list[str] = field(default_factory=list)
    is_live: bool = False
    in_pace: int = 0
    gaps_ms: list[int] = field(default_factory=list)

    def note(self, event_time_ms: int, at_ms: int, brokers: Iterable[str] = ()) -> None:
        """Note an event that arrived at `at_ms`; an older one changes nothing."""
        gap_ms = event_time_ms - self.event_time_ms
        if gap_ms <= 0:
            return
        is_in_pace = (at_ms - self.at_ms) * 2 >= gap_ms
        self.in_pace = self.in_pace + 1 if is_in_pace else 0
        self.is_live = self.is_live or (is_in_pace and _is_current(at_ms - event_time_ms, self.in_pace))
        self.gaps_ms = [*self.gaps_ms, gap_ms][-5:]
        self.event_time_ms, self.at_ms = event_time_ms, at_ms
        self.brokers = sorted(brokers) or self.brokers

    def lag_ms(self) -> int:
        """Return how far it is behind this machine's clock."""
        return _noticed(self.at_ms - self.event_time_ms)

    def is_silent(self, now_ms: int, silent_ms: int, started_ms: int) -> bool:
        """Whether it has been silent since `started_ms` for `silent_ms`, or for ROUNDS of its rounds if longer."""
        long_ms = max(silent_ms, ROUNDS * round(median(self.gaps_ms or [0])))
        return self.is_live and now_ms - max(self.at_ms, started_ms) >= long_ms


REMEMBERED_SECONDS = 60.0
"""Time over which the lag and the pace of a cluster's events are measured."""


@dataclass
class Asking:
    """A cluster with events that needs clock events, and how far its events lag behind.

    `first` and `newest` are monotonic seconds of its requests; `lags` are the newest lags, each with when it was seen,
    `came` how far its events had come then. `is_live`: its events are current, or lag and keep pace; a replay does
    neither. Pace is measured over a minute, as one agent may report every half minute, ahead of the others.
    """

    first: float = 0.0
    newest: float = 0.0
    is_live: bool = False
    event_ms: int = 0
    in_pace: int = 0
    lags: list[tuple[float, int]] = field(default_factory=list)
    came: list[tuple[float, int]] = field(default_factory=list)

    def note(self, now: float, newest_ms: int, now_ms: int) -> None:
        """Note the time of its newest event, seen at `now` (monotonic seconds) and `now_ms` (wall clock)."""
        lag_ms = now_ms - newest_ms
        if self.came and newest_ms > self.event_ms:
            since, event_ms = self.came[0]
            is_in_pace = newest_ms - event_ms <= 2 * (now - since) * 1000 + NOTICED_MS
            self.in_pace = self.in_pace + 1 if is_in_pace else 0
        if not self.is_live and _is_current(lag_ms, self.in_pace):
            self.first, self.is_live = now, True
        self.newest, self.event_ms = now, max(self.event_ms, newest_ms)
        self.lags = [(at, lag) for at, lag in [*self.lags, (now, lag_ms)] if at + REMEMBERED_SECONDS > now]
        self.came = [(at, come) for at, come in [*self.came, (now, self.event_ms)] if at + REMEMBERED_SECONDS > now]

    def lag_ms(self) -> int:
        """Return the least of the recent lags."""
        return _noticed(min((lag for _, lag in self.lags), default=0))


PATIENCE_SECONDS = 15.0
"""Time for which a cluster must lack clock events before `run` publishes them."""

NOTICED_OFF_MS = 3_000
"""Difference to Kafka's timestamp above which the clocks count as different."""

log = structlog.get_logger()


class ClockPublisher:
    """A thread that publishes clock events. A BatchListener."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asking: dict[str, Asking] = {}
        self._off_ms = 0  # by how much Kafka's clock is ahead of this machine's
        self._looked_ms = wall_ms(), _pace_ms()
        self._looking = threading.Lock()
        self._started_ms = wall_ms()
        self._clocks: dict[str, CollectorClock] = {}
        self._tail = Tail(settings.kafka, CLOCKS)
        self._brokers: dict[str, set[str]] = {}
        self._forgotten_ms: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="clock-publisher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def on_batch(self, batch: WrittenBatch) -> None:
        self.listen(batch.rows)

    def listen(self, rows: Rows) -> None:
        """Take in a batch: the clusters that need a clock, those that have one, and the brokers."""
        with self._lock:
            for row in rows.get(CLOCK_NEEDED, ()):
                self._note(row)
            for row in rows.get(CLOCK_HEARD, ()):
                self._note_clock(row["cluster"], row["source"], row["newest_ms"], self.now_ms())
            for row in (*rows.get("broker_health", ()), *rows.get("memberships", ())):
                self._brokers.setdefault(row["cluster"], set()).add(row["broker_name"])

    def _note(self, row: dict[str, Any]) -> None:
        cluster = row["cluster"]
        if cluster == CANARY_CLUSTER or (row["is_wanted"] and row["newest_ms"] <= self._forgotten_ms.get(cluster, 0)):
            return  # of another task, which may not have reached the decision
        if not row["is_wanted"]:
            self._asking.pop(cluster, None)
        else:
            self._asking.setdefault(cluster, Asking()).note(time.monotonic(), row["newest_ms"], self.now_ms())

    def read_ahead(self) -> None:
        """Take in Kafka's new clock events, first those of the last day, ahead of the query. Raises KafkaError."""
        for record in self._tail.read(self.now_ms() - DAY):
            event, reasons = decode(CLOCKS, record.value, record.timestamp)
            if reasons or (event.source == FORGET and all(part.kind != CLUSTER for part in event.forgotten or ())):
                continue  # the time of a cluster, of which a part is forgotten, continues
            with self._lock:
                clock = event.cluster, event.source, event.event_time_ms, record.timestamp, event.brokers_asked
                self._note_clock(*clock)

    def _note_clock(
        self, cluster: str, source: str, event_time_ms: int, at_ms: int, brokers: Sequence[str] = ()
    ) -> None:
        if source == FORGET:
            clock, asking = self._clocks.pop(cluster, None), self._asking.pop(cluster, None)
            if asking or (clock and clock.is_live):
                log.info("cluster or part of it forgotten", cluster=cluster)
            self._brokers.pop(cluster, None)
            self._forgotten_ms[cluster] = max(event_time_ms, self._forgotten_ms.get(cluster, 0))
        elif event_time_ms <= self._forgotten_ms.get(cluster, 0):
            return
        elif source != RUN and cluster != CANARY_CLUSTER:  # the canary is silent between two injections
            known = self._clocks.setdefault(cluster, CollectorClock(event_time_ms, at_ms, sorted(brokers)))
            known.note(event_time_ms, at_ms, brokers)

    def wanted(self, now: float, now_ms: int | None = None) -> list[tuple[str, list[str]]]:
        """Return the clusters that lack clock events for PATIENCE_SECONDS, with their brokers. `now` is monotonic.

        Events that a dead collector published last may ask once or twice; agents ask repeatedly. A live collector may
        only be slow.
        """
        now_ms = self.now_ms() if now_ms is None else now_ms
        with self._lock:
            self._asking = {
                name: asking for name, asking in self._asking.items() if now < asking.newest + FORGOTTEN_MS / 1000
            }
            own = {cluster: clock for cluster, clock in self._clocks.items() if clock.is_live}
            return [
                (cluster, sorted(self._brokers.get(cluster, ())))
                for cluster, asking in sorted(self._asking.items())
                if asking.is_live
                and (asking.newest if cluster in own else now) - asking.first >= PATIENCE_SECONDS
                and (cluster not in own or self._is_silent(own[cluster], now_ms))
            ]

    def unheard(self, now_ms: int) -> list[tuple[str, list[str]]]:
        """Return the clusters whose collector is silent, with its brokers. `now_ms` is wall-clock time."""
        with self._lock:
            return [
                (cluster, clock.brokers or sorted(self._brokers.get(cluster, ())))
                for cluster, clock in sorted(self._clocks.items())
                if self._is_silent(clock, now_ms) and now_ms - clock.at_ms < FORGOTTEN_MS
            ]

    def _is_silent(self, clock: CollectorClock, now_ms: int) -> bool:
        silent_ms = int(self._settings.clock.collector_timeout_seconds * 1000)
        return clock.is_silent(now_ms, silent_ms, self._started_ms)

    def now_ms(self) -> int:
        """Return the time by Kafka's clock, as far as known.

        If this machine's clock is set back, the offset grows by as much; otherwise silence would go unnoticed.
        """
        with self._looking:
            now_ms, pace_ms, before = wall_ms(), _pace_ms(), self._looked_ms
            self._looked_ms = now_ms, pace_ms
            back_ms = (pace_ms - before[1]) - (now_ms - before[0])
            if back_ms > NOTICED_OFF_MS:
                log.warning("clock set back", seconds=round(back_ms / 1000))
                self._off_ms += back_ms
            return now_ms + self._off_ms

    def note_stamp(self, stamped_ms: int, sent_ms: int) -> None:
        """Compare Kafka's timestamp of a message with the local time at which it was sent."""
        off_ms = stamped_ms - sent_ms
        if abs(off_ms - self._off_ms) > NOTICED_OFF_MS:
            log.warning("clock differs from kafka", seconds_behind=round(off_ms / 1000))
            self._off_ms = off_ms if abs(off_ms) > NOTICED_OFF_MS else 0

    def _keep(self) -> None:
        publisher: Publisher | None = None
        has_read = False
        while not self._stop.wait(self._settings.clock.interval_seconds):
            try:
                if not has_read or self.unheard(self.now_ms()):
                    self.read_ahead()
                    has_read = True
                ticks = self.ticks(time.monotonic(), self.now_ms())
                if ticks:
                    publisher = publisher or Publisher(self._settings.kafka)
                    sent_ms = wall_ms()
                    answers = [publisher.publish(CLOCKS, tick) for tick in ticks]
                    publisher.flush()
                    metadata = answers[-1].value
                    if metadata is not None:
                        self.note_stamp(metadata.timestamp, sent_ms)
            except (PublishError, KafkaError) as error:
                log.warning("clock event not sent", reason=str(error))
            except Exception:  # without this thread no time passes: retry at the next interval
                log.exception("clock event not sent")
        self._tail.close()
        if publisher is not None:
            publisher.close()

    def ticks(self, now: float, now_ms: int) -> list[dict[str, Any]]:
        """Return the clock events to send now: `now` in monotonic seconds, `now_ms` by the wall clock.

        Agents that report beside a dead collector give data, so their cluster does not count as one without. If the
        events of a cluster are always late, its clock events are as late: by then all events have arrived.
        """
        wanted = self.wanted(now, now_ms)
        fed = {cluster for cluster, _ in wanted}
        with self._lock:
            lags = {cluster: asking.lag_ms() for cluster, asking in self._asking.items()}
            own_lags = {cluster: clock.lag_ms() for cluster, clock in self._clocks.items()}
        return [clock_event(cluster, brokers, now_ms - lags.get(cluster, 0)) for cluster, brokers in wanted] + [
            clock_event(cluster, brokers, now_ms - own_lags.get(cluster, 0), answered=[])
            for cluster, brokers in self.unheard(now_ms)
            if cluster not in fed
        ]


def clock_event(cluster: str, brokers: list[str], now_ms: int, *, answered: list[str] | None = None) -> dict[str, Any]:
    """Return a clock event of `run` for `brokers`, which count as answered unless `answered` is given."""
    return {
        "cluster": cluster,
        "source": RUN,
        "brokers_asked": brokers,
        "brokers_answered": brokers if answered is None else answered,
        "event_time_ms": now_ms,
    }


def _pace_ms() -> int:
    return time.monotonic_ns() // 1_000_000
