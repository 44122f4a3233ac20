"""What one seed draws for a leg: the clusters with their troubles, and the faults of the alert path with their times.

Times are seconds from the leg's start. Troubles are of the monitored clusters and must be paged; faults hit the path
from the collector to the receivers. Bursts of faults, several at a time, alternate with quiet spells in which the bound
is measured; the last spell is quiet.
"""

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, Literal

from streaming.simulator.scenario import Scenario, parse_scenario
from tests.lab.score.truth import TrueSimulation, TrueWatch
from tests.lab.score.truths import facts_of
from tests.lab.storm.checker import Episode
from tests.lab.storm.receivers import STYLES

Tables = Literal["folder", "bucket"]
Kinds = Mapping[str, tuple[tuple[str, float, float], ...]]
"""Kind of fault to its targets, each with the least and the most seconds."""

INTERVAL_MS = 10_000
"""Between two poll rounds, as `collect` by default."""

CLUSTERS, TWINS, STUCK = 2, 2, 2
"""Clusters; in each the pairs of groups in which twins come and go, and those in which one consumer stops pulling.

The groups of a pair, and two brokers, take turns: an alert that comes back three times in 20 minutes is flapping, and
is meant to stay open.
"""

BROKERS = ("broker-a", "broker-b", "broker-c")

FIRST_FAULT_SECONDS = 20.0

BURST_SECONDS = 200.0
JUDGED = {("duplicate_client_id", None), ("starved_queue", "pull_stopped"), ("broker_isolated", None)}
"""Kind and cause of the pages that the troubles require."""

RECOVERY_MS = {"broker_isolated": 120_000}
"""Time for which a condition outlasts its trouble: producers avoid a slow broker for up to two minutes."""

PROCESSES: Kinds = {
    "kill": (("run", 1, 8), ("relay", 1, 8)),
    "kill_python": (("run", 1, 3),),
    "stop": (("run", 5, 45), ("relay", 5, 45)),
    "power_cut": (("machine", 1, 10),),
    "emptied_commit": (("machine", 1, 5),),
    "clock_step": (("run", 10, 40), ("relay", 10, 40)),
}
INPUT: Kinds = {
    "kill": (("collector", 1, 60), ("kafka", 1, 30)),
    "stop": (("collector", 5, 40), ("kafka", 10, 40)),
    "away": (("kafka", 20, 60),),
}
TABLES: dict[Tables, Kinds] = {
    "folder": {"full_disk": (("tables", 10, 40),)},
    "bucket": {f"bucket_{how}": (("tables", 10, 40),) for how in ("409", "412", "503", "cut", "lost", "away")},
}
RECEIVERS: Kinds = {
    f"receiver_{how}": tuple((name, 10, 40) for name in STYLES) for how in ("slow", "refuses", "trickles", "dies")
}
ONLY_IN_A_FOLDER = ("power_cut", "emptied_commit")


@dataclass(frozen=True)
class Drawn:
    """One fault. Those of one track come one after the other; `more` is its parameter."""

    track: str
    kind: str
    target: str
    at: float
    lasts: float
    more: float


@dataclass(frozen=True)
class Deployment:
    """Where a leg keeps its tables. With `is_apart` the relay is a process of its own."""

    seed: str
    tables: Tables
    is_apart: bool


@dataclass(frozen=True)
class Plan:
    """The faults of a leg of `seconds`. Bursts leave quiet spells of `bound` seconds and some more."""

    seed: str
    seconds: float
    bound: float
    faults: list[Drawn]


def draw_deployment(seed: int, leg: int) -> Deployment:
    """Legs alternate between tables in a folder and in a bucket."""
    name = f"{seed} {leg}"
    return Deployment(name, "folder" if (seed + leg) % 2 else "bucket", random.Random(name).random() < 0.5)


def draw_plan(
    deployment: Deployment, seconds: float, bound: float, start_seconds: float, only: Collection[str] = ()
) -> Plan:
    """Draw faults, of the kinds in `only` if it names any.

    Faults of processes leave time to start, `start_seconds` on this machine, and sometimes too little of it.
    """
    rng = random.Random(f"{deployment.seed} faults")
    drawn: list[Drawn] = []
    last = seconds - bound - 30
    for track, all_faults in _tracks(deployment.tables, is_apart=deployment.is_apart).items():
        faults = [fault for fault in all_faults if not only or fault[0] in only]
        bag: list[tuple[str, str, float, float]] = []
        at = FIRST_FAULT_SECONDS + rng.uniform(0, 15)
        while faults and at < last:
            if not bag:  # every fault comes before one comes again
                bag = rng.sample(faults, len(faults))
            kind, target, least, most = bag.pop()
            lasts = min(rng.uniform(least, most), last - at)
            if lasts >= least and not _is_quiet(at, at + lasts, bound):
                drawn.append(Drawn(track, kind, target, round(at, 1), round(lasts, 1), rng.random()))
            at += lasts + (rng.uniform(0.2, 1.5) * start_seconds if track == "processes" else rng.uniform(3, 25))
    return Plan(deployment.seed, seconds, bound, sorted(drawn, key=lambda fault: fault.at))


def kinds_of(tables: Tables) -> set[str]:
    """Return the faults that a leg can draw, as "kind target"."""
    tracks = _tracks(tables, is_apart=True).values()
    return {f"{kind} {target}" for track in tracks for kind, target, _, _ in track}


def _tracks(tables: Tables, *, is_apart: bool) -> dict[str, list[tuple[str, str, float, float]]]:
    """Return the faults of each track: kind, target, least and most seconds. Tracks overlap."""
    tracks = {"processes": PROCESSES, "input": INPUT, "tables": TABLES[tables], "receivers": RECEIVERS}
    return {
        track: [
            (kind, target, least, most)
            for kind, places in kinds.items()
            for target, least, most in places
            if (is_apart or target != "relay") and (tables == "folder" or kind not in ONLY_IN_A_FOLDER)
        ]
        for track, kinds in tracks.items()
    }


def _is_quiet(at: float, until: float, bound: float) -> bool:
    """Whether the time touches a quiet spell between two bursts."""
    period = BURST_SECONDS + bound + 30
    begin = (at - FIRST_FAULT_SECONDS) % period
    return begin + (until - at) > BURST_SECONDS


def draw_cluster(plan: Plan, number: int) -> Scenario:
    """Return a cluster with its troubles; it expects the findings other than of queues."""
    rng = random.Random(f"{plan.seed} cluster {number}")
    groups: list[dict[str, Any]] = []
    happenings: list[dict[str, Any]] = []
    expected: list[dict[str, Any]] = []
    for pair in range(TWINS + STUCK):
        is_of_twins, indices = pair < TWINS, (2 * pair, 2 * pair + 1)
        groups += [_group(f"group-{index}", index, with_twin=is_of_twins) for index in indices]
        for index, (at, until) in zip(cycle(indices), _spells(rng, plan.seconds), strict=False):
            name = f"group-{index}"
            if is_of_twins:
                twin = f"{name}-twin"
                happenings += [
                    {"at": at, "action": "start", "consumer": twin},
                    {"at": until, "action": "stop", "consumer": twin},
                ]
                labels = {"consumer_group": name, "client_id": f"172.17.{index}.2@7"}
                expected.append({"kind": "duplicate_client_id", **labels, "from": at, "until": until})
            else:
                stuck = {"at": at, "until": until, "action": "stop_pulling", "consumer": f"{name}-1"}
                happenings.append(stuck)
    for slow, (at, until) in zip(cycle(BROKERS[1:]), _spells(rng, plan.seconds), strict=False):
        happening = {"at": at, "until": until, "action": "slow_broker", "broker_name": slow, "latency_ms": 2000}
        happenings.append(happening)
        expected.append({"kind": "broker_isolated", "broker_name": slow, "from": at, "until": until})
    versions = ("5.3.3", "4.9.8", "5.1.4")
    fields = {
        "description": "A cluster of the storm.",
        "cluster": f"storm-{number}",
        "brokers": [*BROKERS],
        "topics": [{"topic": "orders", "queue_nums": 4}],
        "groups": groups,
        "producers": [
            {
                "client_id": f"10.20.1.{20 + index}@3011#8120334000{index}",
                "host": f"10.20.1.{20 + index}",
                "client_version": version,
                "topics": ["orders"],
            }
            for index, version in enumerate(versions)
        ],
        "happenings": sorted(happenings, key=lambda happening: happening["at"]),
        "expects": expected,
    }
    return parse_scenario(fields)


def _spells(rng: random.Random, seconds: float) -> Iterator[tuple[float, float]]:
    """Yield when a trouble begins and ends. The last one may hold at the end of the leg."""
    at = rng.uniform(20, 70)
    while at < seconds - 30:
        until = at + rng.uniform(190, 330)
        yield round(at), round(until)
        at = until + rng.uniform(170, 260)


def _group(name: str, index: int, *, with_twin: bool) -> dict[str, Any]:
    consumers: list[dict[str, Any]] = [
        {"name": f"{name}-{number}", "client_id": f"172.17.{index}.{number + 1}@7", "host": f"10.20.{index}.{number}"}
        for number in (1, 2, 3)
    ]
    if with_twin:
        twin = {
            "name": f"{name}-twin",
            "client_id": f"172.17.{index}.2@7",
            "host": f"10.20.{index}.9",
            "running": False,
        }
        consumers.append(twin)
    return {"consumer_group": name, "subscriptions": ["orders"], "consumers": consumers}


def episodes_of(watch: TrueWatch) -> Iterator[Episode]:
    """Yield the episodes of a cluster that has been played to its end, with the bounds of the score laboratory.

    Starved queues of a group and topic are one alert, so one episode. The page of twins inhibits their starved queues.
    """
    simulation: TrueSimulation = watch.simulation
    open_: dict[Any, Episode] = {}
    facts = (fact for fact in facts_of(simulation) if fact.required and (fact.kind, fact.cause) in JUDGED)
    for fact in sorted(facts, key=lambda fact: fact.start_ms):
        names = ("consumer_group", "topic", "client_id", *(() if fact.queue else ("broker_name",)))
        labels = {"cluster": simulation.scenario.cluster}
        labels |= {name: value for name in names if (value := getattr(fact, name))}
        until_ms = fact.end_ms if fact.end_ms is not None and fact.end_ms <= simulation.now_ms else None
        over_ms = RECOVERY_MS.get(fact.kind, 0) + 2 * INTERVAL_MS
        over_ms += 0 if fact.end_ms is None else fact.resolve_by_ms - fact.end_ms
        certain_ms = fact.detect_by_ms - fact.start_ms + 2 * INTERVAL_MS
        episode = Episode(fact.kind, labels, fact.start_ms, until_ms, certain_ms, over_ms)
        key = episode.kind, *labels.values()
        before = open_.get(key)
        if before is not None and episode.from_ms <= before.end_ms:
            ends_ms = (before.until_ms, until_ms)
            until_ms = None if None in ends_ms else max(end_ms or 0 for end_ms in ends_ms)
            episode = replace(before, until_ms=until_ms, certain_after_ms=max(before.certain_after_ms, certain_ms))
        elif before is not None:
            yield before
        open_[key] = episode
    yield from open_.values()
