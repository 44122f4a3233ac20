"""`balancewatch simulate`: a modelled cluster's events into Kafka, with progress."""

import threading
import time
from datetime import datetime

from conf.settings import Settings
from streaming.ingest.publisher import Publisher
from streaming.ingest.simulator import ScenarioError, load_scenario
from streaming.ingest.simulator import simulate as simulate_events
from streaming.ingest.simulator.play import play
from streaming.ingest.topics import create_topics
from streaming.output import end_progress, show_progress

ENDLESS_SECONDS = 900.0
"""What of an endless scenario is played as fast as it goes, when no length is given."""


class SimulateError(ValueError):
    """An argument cannot be used. The message is one sentence."""


def run_simulation(
    settings: Settings,
    stop: threading.Event,
    *,
    scenario: str,
    seed: int,
    speed: str,
    seconds: float | None,
    start: str | None,
) -> int:
    """Publish a run and return how many events. Raises SimulateError for arguments that cannot be used."""
    try:
        modelled = load_scenario(scenario)
    except ScenarioError as error:
        raise SimulateError(str(error)) from None
    pace = _pace(speed)
    length = seconds or modelled.duration_seconds
    if length is None and pace is None:
        length = ENDLESS_SECONDS
    start_ms = _start_ms(start, length)
    duration_ms = None if length is None else int(length * 1000)
    create_topics(settings.kafka)
    began, shown = time.monotonic(), [0.0]

    def show(count: int, event_time_ms: int) -> None:
        if time.monotonic() - shown[0] > 0.5:
            shown[0] = time.monotonic()
            part = f" of {length:.0f}" if length else ""
            at_seconds = (event_time_ms - start_ms) / 1000
            show_progress(f"{at_seconds:.0f}{part} virtual seconds, {count:,} events")

    with Publisher(settings.kafka) as publisher:
        events = simulate_events(modelled, seed, start_ms, duration_ms)
        count = play(events, publisher, speed=pace, stop=stop, on_progress=show)
    end_progress(f"published {count:,} events in {time.monotonic() - began:.1f} s")
    return count


def _pace(speed: str) -> float | None:
    if speed == "max":
        return None
    try:
        pace = float(speed)
    except ValueError:
        pace = 0.0
    if not 0 < pace < float("inf"):
        raise SimulateError(f'--speed {speed!r}: give a number above 0, or "max"')
    return pace


def _start_ms(start: str | None, length: float | None) -> int:
    if start is None:
        return time.time_ns() // 1_000_000 - int((length or 0) * 1000)
    try:
        return int(datetime.fromisoformat(start).astimezone().timestamp() * 1000)
    except ValueError:
        raise SimulateError(f"--start {start!r}: give ISO 8601, like 2026-11-21T03:12:00Z") from None
