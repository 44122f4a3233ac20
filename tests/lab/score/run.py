"""One run of the score: a scenario played through the rules under conditions, and what they got right of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from conf.settings import Settings
from schemas.events import CLOCKS
from streaming.replay.stream import Enveloper
from streaming.service import clock_publisher
from streaming.simulator.conditions import Conditions, Skew
from streaming.simulator.scenario import load_scenario, scenario_names
from streaming.simulator.watched import Watched
from streaming.simulator.world import Said
from streaming.warehouse.rows import Rows
from tests.lab.score.claims import Claim, claims_of, pages_of
from tests.lab.score.conditioned import facts_under
from tests.lab.score.match import UNFOUNDED, Key, Tally, compare, verdicts_of
from tests.lab.score.recorded import Recorded
from tests.lab.score.sample import draw, has_second_group
from tests.simulator.modelled import START
from tests.support.engine import Stream

Tick = Callable[[int, Rows], list[dict[str, Any]]]


@contextmanager
def runs_clock(start_ms: int, ahead_ms: int) -> Iterator[Tick]:
    """Yield what the clock publisher of one play sends at a true time, after a batch of these rows.

    `ahead_ms` is how far the clock of `run`'s host is ahead.
    """
    now_ms = start_ms + ahead_ms
    time = SimpleNamespace(
        time_ns=lambda: now_ms * 1_000_000,
        time=lambda: now_ms / 1000,
        monotonic=lambda: now_ms / 1000,
        monotonic_ns=lambda: now_ms * 1_000_000,
    )
    with patch.object(clock_publisher, "time", time), patch.object(clock_publisher, "wall_ms", lambda: now_ms):
        publisher = clock_publisher.ClockPublisher(Settings.load())

        def tick(true_ms: int, rows: Rows) -> list[dict[str, Any]]:
            nonlocal now_ms
            now_ms = true_ms + ahead_ms
            publisher.listen(rows)
            return publisher.ticks(now_ms / 1000, now_ms)

        yield tick


SLICE_MS = 600_000
BY_CLIENTS = ("broker_isolated", "broker_evicted", "no_available_broker")
"""Kinds that are dated by what producers tell of themselves, whoever keeps the cluster's time."""

LIVE_SLICE_MS = 10_000
"""Of a batch where Kafka's time matters: as long a span as a live query's, or a little longer."""
DAY_MS = 86_400_000
ROLLOUT_MS = 3_600_000
"""Of a healthy stretch with a roll-out beside it, which is dear to play."""
CHURN = "churn"
"""The scenario of healthy days."""


@dataclass(frozen=True)
class Run:
    """A scenario with a seed, for so long; None plays as long as the scenario says."""

    name: str
    seed: int
    duration_ms: int | None
    conditions: Conditions = field(default_factory=Conditions)
    beside: str = ""
    has_second_group: bool = False

    def labels(self) -> dict[str, str]:
        """Dimension to value: all that is not as the scenario's file says."""
        labels = {"view": self.conditions.view}
        for one in fields(self.conditions):
            value = getattr(self.conditions, one.name)
            if one.name != "view" and value != one.default:
                labels[one.name.removesuffix("_ms")] = _describe(value)
        beside = {"beside": self.beside} if self.beside else {}
        return labels | beside | ({"second group": "yes"} if self.has_second_group else {})

    def __str__(self) -> str:
        reported = ", ".join(f"{name} {value}" for name, value in self.labels().items())
        return f"{self.name} {self.seed} ({reported})"


def _describe(value: object) -> str:
    match value:
        case Skew(role, ahead_ms):
            return f"{role} {ahead_ms / 1000:+g} s"
        case int():
            return f"{value / 1000:g} s"
        case float():
            return f"{value:.0%}"
    return str(value)


@dataclass(frozen=True)
class Score:
    """What became of a run.

    tallies      (kind, cause) to claims, misses and errors
    false_pages  "kind cause" of each of them that no fact of its kind, labels and time explains, in healthy scenarios
    healthy_ms   how long a healthy scenario was played; 0 for the others
    """

    tallies: dict[Key, Tally]
    false_pages: list[str]
    healthy_ms: int


def score(run: Run) -> Score:
    """Play the run to its end and hold the alerts against what was true."""
    watched = Recorded(
        load_scenario(run.name), run.seed, START, run.conditions, run.beside, second_group=run.has_second_group
    )
    alerts = play(watched, run.duration_ms)
    paged = pages_of(alerts)
    claims = _by_true_time(claims_of(alerts), watched)
    facts = list(facts_under(watched))
    tallies = compare(claims, facts, str(run), START)
    if not watched.simulation.scenario.healthy:
        return Score(tallies, [], 0)
    explained = {claim.incident_id for claim, verdict in verdicts_of(claims, facts).items() if verdict not in UNFOUNDED}
    false_pages = [f"{row['kind']} {row['cause']}" for key, row in paged.items() if key not in explained]
    return Score(tallies, false_pages, watched.simulation.now_ms - START)


def _by_true_time(claims: list[Claim], watched: Watched) -> list[Claim]:
    """Alerts are dated by the cluster's own clock; where that is behind, their times are moved to the true ones.

    One that is ahead moves nothing: no event is later than it reached Kafka.
    """
    conditions = watched.conditions
    behind_ms = -min(conditions.ahead_ms("collector"), conditions.ahead_ms("run"), 0)
    return [
        claim
        if claim.kind in BY_CLIENTS
        else replace(
            claim,
            start_ms=claim.start_ms + behind_ms,
            end_ms=None if claim.end_ms is None else claim.end_ms + behind_ms,
        )
        for claim in claims
    ]


def play(watched: Watched, duration_ms: int | None = None) -> list[dict[str, Any]]:
    """Every alert row; the events are not kept, for days of them would not fit."""
    conditions = watched.conditions
    stream, enveloper, alerts = Stream(), Enveloper(), []

    def feed(said: list[Said]) -> dict[str, list[dict[str, Any]]]:
        messages = enveloper.messages((topic, event) for topic, event, _ in said)
        for message, (_, _, time_ms) in zip(messages, said, strict=True):
            message["ingest_time_ms"] = time_ms
        rows = stream.work_through(messages)
        alerts.extend(rows.get("alerts", []))
        return rows

    if conditions.view == "agents":
        interval_ms = conditions.interval_ms or watched.simulation.scenario.clock_interval_ms
        with runs_clock(START, conditions.ahead_ms("run")) as tick:
            ticks: list[Said] = []
            for end_ms, said in _slices(watched.said(duration_ms), interval_ms):
                rows = feed([*ticks, *said])
                ticks = [(CLOCKS, event, end_ms) for event in tick(end_ms, rows)]
        return alerts
    is_live = conditions.skew is not None
    for _, said in _slices(watched.said(duration_ms), LIVE_SLICE_MS if is_live else SLICE_MS):
        feed(said)
    return alerts


def _slices(said: Iterator[Said], slice_ms: int) -> Iterator[tuple[int, list[Said]]]:
    """(end of the slice, what reached Kafka in it), without the empty ones."""
    for number, of_slice in groupby(said, lambda one: (one[2] - START) // slice_ms):
        yield START + (number + 1) * slice_ms, list(of_slice)


def runs(names: list[str] | None, seeds: range, days: float, *, samples: int = 0) -> list[Run]:
    """The healthy days, which take longest, then each scenario with each seed; all that end where `names` is None.

    Each seed plays a scenario as its file says, and under `samples` conditions drawn by it. The days are cut so that
    each seed has as many conditions.
    """
    every = [name for name in scenario_names() if load_scenario(name).duration_seconds is not None]
    chosen = every if names is None else names
    return [*_healthy_days(seeds, days, samples)] + [
        Run(name, seed, None, *conditions, has_second_group=has_second_group(f"{name} {seed} {number}"))
        for name in chosen
        for seed in seeds
        for number, conditions in enumerate([(), *(draw(f"{name} {seed} {number}") for number in range(samples))])
    ]


def _healthy_days(seeds: range, days: float, samples: int) -> Iterator[Run]:
    """Half of each seed's days as the file says; the others cut into stretches, each under conditions of its own."""
    if not days:
        return
    of_seed_ms = int(days / len(seeds) * DAY_MS)
    for seed in seeds:
        if not samples:
            yield Run(CHURN, seed, of_seed_ms)
            continue
        yield Run(CHURN, seed, of_seed_ms // 2)
        stretches = 4 * samples
        for number in range(stretches):
            conditions, beside = draw(f"{CHURN} {seed} {number}", most_pods=40)
            is_shared = has_second_group(f"{CHURN} {seed} {number}")
            duration_ms = of_seed_ms // 2 // stretches
            yield Run(CHURN, seed * 1000 + number, duration_ms, conditions, has_second_group=is_shared)
            if beside.startswith("rollout"):
                yield Run(CHURN, seed * 1000 + number, ROLLOUT_MS, conditions, beside, is_shared)
