"""A scraper beside a running service: what it saw over time, for tests that ask afterwards."""

import threading
from collections.abc import Iterable
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

PAUSE_SECONDS = 0.5


class Scraper:
    """Asks every page now and then, from when it is made until `stop`."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self.text = ""
        self.alive: list[int] = []
        self.ready: list[tuple[int, tuple[str, ...]]] = []
        self._most: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self._stop, self._looking = threading.Event(), threading.Lock()
        self.look()
        self._thread = threading.Thread(target=self._scrape, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """After a last look."""
        self._stop.set()
        self._thread.join(30)
        self.look()

    def most(self, name: str, **labels: str) -> float:
        """The highest value that any series of this name with these labels ever had; 0 when there was none."""
        return max(
            (value for (one, of), value in self._most.items() if one == name and labels.items() <= of), default=0
        )

    def last(self, name: str, **labels: str) -> float:
        """The sum of the series of this name with these labels, at the last look."""
        return sum(
            sample.value
            for sample in _samples(self.text)
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def names(self) -> set[str]:
        """Families that had a sample, NaN aside, at the last look."""
        families = text_string_to_metric_families(self.text)
        return {one.name for one in families if any(sample.value == sample.value for sample in one.samples)}

    def _scrape(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            self.look()

    def look(self) -> None:
        """Ask every page once."""
        with self._looking, httpx.Client(base_url=self._url, timeout=60) as client:
            self.alive.append(client.get("/healthz").status_code)
            ready = client.get("/readyz")
            self.ready.append((ready.status_code, tuple(ready.json()["reasons"])))
            self.text = client.get("/metrics").text
        for sample in _samples(self.text):
            key = sample.name, frozenset(sample.labels.items())
            self._most[key] = max(sample.value, self._most.get(key, sample.value))


def _samples(text: str) -> Iterable[Any]:
    return (sample for family in text_string_to_metric_families(text) for sample in family.samples)
