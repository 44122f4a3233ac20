"""`balancewatch simulate`: publish the events of a simulated cluster to Kafka, with progress."""

import threading
import time
from dataclasses import dataclass
from datetime import datetime

from conf.settings import Settings
from streaming.kafka_io.publisher import Publisher
from streaming.kafka_io.topics import create_topics
from streaming.simulator import (
    Conditions,
    ConditionsError,
    Scenario,
    ScenarioError,
    Watched,
    load_scenario,
    parse_skew,
)
from streaming.simulator.beside import with_beside
from streaming.simulator.play import play
from streaming.text.output import end_progress, show_progress
from streaming.text.times import to_ms, wall_ms

ENDLESS_SECONDS = 900.0
"""Length of a scenario without end at full speed, unless one is given."""


class SimulateError(ValueError):
    """An argument is invalid. The message is one sentence."""


@dataclass(frozen=True)
class Watching:
    """Monitoring of the cluster as the command's options: seconds and shares."""

    view: str = ""
    interval: float | None = None
    missed_rounds: float = 0.0
    lost_answers: float = 0.0
    mute_clients: float = 0.0
    listed_only: float = 0.0
    skew: str | None = None
    lag: float = 0.0
    beside: str = ""

    def conditions(self, scenario: Scenario) -> Conditions:
        """Return the conditions, with the scenario's view and interval as defaults. Raises ConditionsError."""
        return Conditions(
            self.view or scenario.view,  # type: ignore[arg-type]  # Conditions checks it
            scenario.clock_interval_ms if self.interval is None else round(self.interval * 1000),
            self.missed_rounds,
            self.lost_answers,
            self.mute_clients,
            self.listed_only,
            None if self.skew is None else parse_skew(self.skew),
            round(self.lag * 1000),
        )


def run_simulation(
    settings: Settings,
    stop: threading.Event,
    *,
    scenario: str,
    seed: int,
    speed: str,
    seconds: float | None,
    start: str | None,
    watching: Watching,
) -> int:
    """Publish a run and return how many events. Raises SimulateError for invalid arguments."""
    pace = _pace(speed)
    try:
        modelled = load_scenario(scenario)
        if watching.beside:
            modelled = with_beside(modelled, watching.beside)
        length = seconds or modelled.duration_seconds
        if length is None and pace is None:
            length = ENDLESS_SECONDS
        start_ms = _start_ms(start, length)
        watched = Watched(modelled, seed, start_ms, watching.conditions(modelled))
    except (ScenarioError, ConditionsError) as error:
        raise SimulateError(str(error)) from None
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
        count = play(watched.said(duration_ms), publisher, speed=pace, stop=stop, on_progress=show)
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
        return wall_ms() - int((length or 0) * 1000)
    try:
        return to_ms(datetime.fromisoformat(start))
    except ValueError:
        raise SimulateError(f"--start {start!r}: give ISO 8601, like 2026-11-21T03:12:00Z") from None
