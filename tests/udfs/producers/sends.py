"""Logs of sends for the rules about brokers: written as lines, cut in batches, judged by a fleet."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.support.rules import default_rules, kind_rules
from udfs.alerts.alert import Transition
from udfs.alerts.rules import Rules
from udfs.producers.attempts import AttemptsBuilder
from udfs.producers.findings import judge_fleet
from udfs.producers.fleet import Fleet, Passage

START = 1_700_000_000_000
SECOND, MINUTE = 1_000, 60_000
TICK_MS = 5_000


@dataclass(frozen=True)
class Send:
    """One attempt, `at_ms` after START."""

    at_ms: int
    client_id: str
    broker_name: str = "broker-b"
    latency_ms: int = 3
    isolation: bool = False
    reachable: bool = True
    client_version: str = "4.9.8"


def every(step_ms: int, from_ms: int, to_ms: int, client_id: str, **fields: object) -> list[Send]:
    """The same attempt again and again, from `from_ms` to before `to_ms`."""
    return [Send(at_ms, client_id, **fields) for at_ms in range(from_ms, to_ms, step_ms)]  # type: ignore[arg-type]  # by name


@dataclass(frozen=True)
class Tick:
    at_ms: int


def log_of(sends: Iterable[Send], end_ms: int) -> list[Send | Tick]:
    """Sends and a tick every five seconds up to `end_ms`, in order of time; at one time the tick comes last."""
    ticks = [Tick(at_ms) for at_ms in range(0, end_ms + 1, TICK_MS)]
    return sorted([*sends, *ticks], key=lambda one: (one.at_ms, isinstance(one, Tick)))


def cut(log: Sequence[Send | Tick], batches: int) -> Iterator[Sequence[Send | Tick]]:
    """The log in so many parts of nearly one size."""
    edges = [len(log) * part // batches for part in range(batches + 1)]
    return (log[start:end] for start, end in itertools.pairwise(edges))


def feed(fleet: Fleet, batch: Iterable[Send | Tick], rules: Rules) -> list[Transition]:
    """One batch, as the stream brings it: run-length attempts a producer and broker, the newest tick, judgement."""
    builders: dict[tuple[str, str, str], AttemptsBuilder] = {}
    ticks_ms = [fleet.tick_ms]
    for one in batch:
        if isinstance(one, Tick):
            ticks_ms.append(START + one.at_ms)
            fleet.tick_ms = max(fleet.tick_ms, START + one.at_ms)
            continue
        key = (one.broker_name, one.client_id, one.client_version)
        builder = builders.setdefault(key, AttemptsBuilder(one.client_id, one.client_version))
        builder.add(START + one.at_ms, one.latency_ms, one.isolation, one.reachable)
    for (broker_name, _, _), builder in builders.items():
        fleet.add(broker_name, builder.attempts)
    moments = Passage(fleet, fleet.tick_ms, rules, ticks_ms).moments()
    return [transition for _ in moments for transition in judge_fleet(fleet, "c", rules)]


AT_ONCE = {"*": kind_rules(pending_evaluations=1, recovering_ms=0)}
"""No hold but the rules' own: what is found fires as it is certain, and is over as it is gone."""


def judge(
    sends: Iterable[Send], end_ms: int, batches: int = 1, rules: Rules | None = None, outage: range = range(0)
) -> list[Transition]:
    """All transitions of a log up to `end_ms`, cut in `batches`, of what fired. What is of the `outage` is lost."""
    fleet, rules = Fleet(), replace(rules or default_rules(), kinds=AT_ONCE)
    parts = cut([one for one in log_of(sends, end_ms) if one.at_ms not in outage], batches)
    return [one for part in parts for one in feed(fleet, part, rules) if one.incident.has_fired]


def reported(transitions: Iterable[Transition]) -> list[tuple[str, str, int]]:
    """(kind, state, seconds after START)."""
    return [(one.incident.kind, one.state, (one.changed_at_ms - START) // SECOND) for one in transitions]
