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
from collections.abc import Sequence
from typing import Any

import structlog
from kafka.errors import KafkaError

from conf.settings import Settings
from schemas.events import CLOCKS
from streaming.kafka_io.publisher import Publisher, PublishError
from streaming.queries.shard_clock import CLOCK_HEARD, CLOCK_NEEDED, RUN
from streaming.queries.shard_endings import FORGET
from streaming.queries.written_batch import WrittenBatch
from streaming.service.asking import Asking
from streaming.service.clock_tail import ClockTail
from streaming.service.collector_clocks import FORGOTTEN_MS, CollectorClocks
from streaming.text.times import wall_ms
from streaming.warehouse.rows import Rows
from udfs.alerts.rulebook import CANARY_CLUSTER

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
        self._own = CollectorClocks(wall_ms())
        self._tail = ClockTail(settings.kafka)
        self._brokers: dict[str, set[str]] = {}
        self._forgotten_ms: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="clock-keeper", daemon=True)

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
        """Learn from a batch: who asks for a clock, who has one, and which brokers there are."""
        with self._lock:
            for row in rows.get(CLOCK_NEEDED, ()):
                self._note(row)
            for row in rows.get(CLOCK_HEARD, ()):
                self._note_clock(row["cluster"], row["source"], row["newest_ms"], self.now_ms())
            for table in ("broker_health", "memberships"):
                for row in rows.get(table, ()):
                    self._brokers.setdefault(row["cluster"], set()).add(row["broker_name"])

    def _note(self, row: dict[str, Any]) -> None:
        cluster = row["cluster"]
        if cluster == CANARY_CLUSTER or (row["is_wanted"] and row["newest_ms"] <= self._forgotten_ms.get(cluster, 0)):
            return  # of another task, which may still be at what came before the decision
        if not row["is_wanted"]:
            self._asking.pop(cluster, None)
        else:
            self._asking.setdefault(cluster, Asking()).note(time.monotonic(), row["newest_ms"], self.now_ms())

    def _note_clock(
        self, cluster: str, source: str, event_time_ms: int, at_ms: int, brokers: Sequence[str] = ()
    ) -> None:
        if source == FORGET:
            if self._own.has(cluster) or cluster in self._asking:
                log.info("cluster or part of it forgotten", cluster=cluster)
            self._own.forget(cluster)
            self._asking.pop(cluster, None)
            self._brokers.pop(cluster, None)
            self._forgotten_ms[cluster] = max(event_time_ms, self._forgotten_ms.get(cluster, 0))
        elif event_time_ms <= self._forgotten_ms.get(cluster, 0):
            return
        elif source != RUN and cluster != CANARY_CLUSTER:  # the canary is silent between two injections
            self._own.note(cluster, event_time_ms, at_ms, brokers)

    def wanted(self, now: float, now_ms: int | None = None) -> list[tuple[str, list[str]]]:
        """Return the clusters that lack clock events for PATIENCE_SECONDS, with their brokers. `now` is monotonic.

        Events that a dead collector published last may ask once or twice; agents ask repeatedly. A live collector may
        only be slow.
        """
        now_ms = self.now_ms() if now_ms is None else now_ms
        silent_ms = int(self._settings.clock.collector_timeout_seconds * 1000)
        with self._lock:
            self._asking = {name: one for name, one in self._asking.items() if now < one.newest + FORGOTTEN_MS / 1000}
            return [
                (cluster, sorted(self._brokers.get(cluster, ())))
                for cluster, asking in sorted(self._asking.items())
                if asking.is_live
                and (asking.newest if self._own.has(cluster) else now) - asking.first >= PATIENCE_SECONDS
                and (not self._own.has(cluster) or self._own.is_silent(cluster, now_ms, silent_ms))
            ]

    def unheard(self, now_ms: int) -> list[tuple[str, list[str]]]:
        """Return the clusters whose collector is silent, with its brokers. `now_ms` is wall-clock time."""
        with self._lock:
            silent = self._own.silent(now_ms, int(self._settings.clock.collector_timeout_seconds * 1000))
            return [(cluster, brokers or sorted(self._brokers.get(cluster, ()))) for cluster, brokers in silent.items()]

    def _read_tail(self) -> None:
        seen = self._tail.read(self.now_ms())
        with self._lock:
            for clock in seen:
                self._note_clock(clock.cluster, clock.source, clock.event_time_ms, clock.at_ms, clock.brokers)

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
                    self._read_tail()
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
            except Exception:  # without this thread no time passes: the next tick is tried whatever this one met
                log.exception("clock event not sent")
        self._tail.close()
        if publisher is not None:
            publisher.close()

    def ticks(self, now: float, now_ms: int) -> list[dict[str, Any]]:
        """The clock events that are to be sent now: `now` in monotonic seconds, `now_ms` by the wall clock.

        Agents that report beside a dead collector give data, so their cluster is not taken as one without. A cluster
        whose events are late by as much each time is given a time as late: all that had happened by then has arrived.
        """
        wanted = self.wanted(now, now_ms)
        fed = {cluster for cluster, _ in wanted}
        with self._lock:
            lags = {cluster: asking.lag_ms() for cluster, asking in self._asking.items()}
        return [clock_event(cluster, brokers, now_ms - lags.get(cluster, 0)) for cluster, brokers in wanted] + [
            clock_event(cluster, brokers, now_ms - self._own.lag_ms(cluster), answered=[])
            for cluster, brokers in self.unheard(now_ms)
            if cluster not in fed
        ]


def clock_event(cluster: str, brokers: list[str], now_ms: int, *, answered: list[str] | None = None) -> dict[str, Any]:
    """A tick of ours: it speaks for `brokers`, and takes them as heard when `answered` does not say otherwise."""
    return {
        "cluster": cluster,
        "source": RUN,
        "brokers_asked": brokers,
        "brokers_answered": brokers if answered is None else answered,
        "event_time_ms": now_ms,
    }


def _pace_ms() -> int:
    return time.monotonic_ns() // 1_000_000
