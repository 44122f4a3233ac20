"""What a collector published, asked and missed since its last line on it, and when the bound on requests bites."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping

import structlog

from conf.settings import Collector
from streaming.collector.reading import Reading

SUMMARY_SECONDS = 600.0

log = structlog.get_logger()


class Tally:
    """Counts round by round; says so every SUMMARY_SECONDS."""

    def __init__(self, settings: Collector) -> None:
        self._settings = settings
        self._counters: dict[str, Counter[str]] = {
            name: Counter() for name in ("events", "brokers_missed", "unheard", "requests", "held_back")
        }
        self._last_summary = time.monotonic()
        self._bound_at = -SUMMARY_SECONDS

    def add(
        self, reading: Reading, topics: Iterable[str], requests: Mapping[str, int], held_back: Mapping[str, int]
    ) -> None:
        """A round that was published: the events' topics, and by server what was asked and what of it had to wait."""
        self._counters["events"].update(topics)
        self._counters["brokers_missed"].update(set(reading.brokers_asked) - set(reading.brokers))
        self._counters["unheard"].update(each.reason for each in reading.unheard)
        self._counters["requests"].update(requests)
        self._counters["held_back"].update(held_back)
        self._report_bound(reading, requests, held_back)
        if time.monotonic() - self._last_summary > SUMMARY_SECONDS:
            self.log_summary()

    def log_summary(self) -> None:
        """Everything since the last time."""
        log.info("collected", **{name: dict(counter) for name, counter in self._counters.items()})
        for counter in self._counters.values():
            counter.clear()
        self._last_summary = time.monotonic()

    def _report_bound(self, reading: Reading, requests: Mapping[str, int], held_back: Mapping[str, int]) -> None:
        """Once in SUMMARY_SECONDS: the bound on requests costs answers, or a round its time."""
        bound = sorted(server for server, held in held_back.items() if held > requests[server] / 2)
        unreached = sum(each.reason == "no_time" for each in reading.unheard)
        is_late = reading.took_ms > self._settings.interval_seconds * 1000
        if bound and (unreached or is_late) and time.monotonic() - self._bound_at >= SUMMARY_SECONDS:
            self._bound_at = time.monotonic()
            log.warning(
                "round throttled by collector.requests_per_second",
                requests_per_second=self._settings.requests_per_second,
                servers=bound,
                requests=sum(requests[server] for server in bound),
                unreached=unreached,
                seconds=round(reading.took_ms / 1000, 1),
            )
