"""What one seed draws for a leg: the clusters with their troubles, and the faults of the alert path with their times.

Times are seconds from the leg's start. Troubles are of the monitored clusters and must be paged; faults hit the path
from the collector to the receivers. Bursts of faults, several at a time, alternate with quiet spells in which the bound
is measured; the last spell is quiet.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from streaming.simulator.scenario import Scenario, parse_scenario
from tests.lab.score.truth import TrueSimulation, TrueWatch
from tests.lab.score.truths import facts_of
from tests.lab.storm.checker import Episode
from tests.lab.storm.receivers import STYLES

Tables = Literal["folder", "bucket"]

INTERVAL_MS = 10_000
"""Between two poll rounds, as `collect` by default."""

CLUSTERS, TWINS, STUCK = 2, 2, 2
"""Clusters; in each the groups in which twins come and go, and those in which one consumer stops pulling."""

FIRST_FAULT_SECONDS = 20.0

BURST_SECONDS = 200.0
RECOVERY_SECONDS = {"broker_isolated": 120.0}
"""Time for which a condition outlasts its trouble: producers avoid a slow broker for up to two minutes."""

SERVICE = {
    "kill": (("run", 1, 8), ("relay", 1, 8)),
    "kill_python": (("run", 1, 3),),
    "stop": (("run", 5, 45), ("relay", 5, 45)),
    "power_cut": (("machine", 1, 10),),
    "emptied_commit": (("machine", 1, 5),),
    "clock_step": (("run", 10, 40), ("relay", 10, 40)),
}
INPUT = {
    "kill": (("collector", 1, 60), ("kafka", 1, 30)),
    "stop": (("collector", 5, 40), ("kafka", 10, 40)),
    "away": (("kafka", 20, 60),),
}
STORAGE = {
    "folder": {"full_disk": (("tables", 10, 40),)},
    "bucket": {f"bucket_{how}": (("tables", 10, 40),) for how in ("409", "412", "503", "cut", "lost", "away")},
}
RECEIVERS = {
    f"receiver_{how}": tuple((name, 10, 40) for name in STYLES) for how in ("slow", "refuses", "trickles", "dies")
}
ONLY_IN_A_FOLDER = ("power_cut", "emptied_commit")


@dataclass(frozen=True)
class Drawn:
    """One fault: `more` is its parameter, drawn as all else."""

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


def draw_plan(deployment: Deployment, seconds: float, bound: float) -> Plan:
    rng = random.Random(f"{deployment.seed} faults")
    faults = sorted(_faults(rng, deployment, seconds, bound), key=lambda fault: fault.at)
    return Plan(deployment.seed, seconds, bound, faults)


def kinds_of(tables: Tables) -> set[str]:
    """Return the faults that a leg can draw, as "kind target"."""
    return {f"{kind} {target}" for track in _tracks(tables, is_apart=True) for kind, target, _, _ in track}


def _tracks(tables: Tables, *, is_apart: bool) -> Iterator[list[tuple[str, str, float, float]]]:
    """Each track has one fault at a time; the tracks overlap."""
    for kinds in (SERVICE, INPUT, STORAGE[tables], RECEIVERS):
        yield [
            (kind, target, least, most)
            for kind, places in kinds.items()
            for target, least, most in places
            if (is_apart or target != "relay") and (tables == "folder" or kind not in ONLY_IN_A_FOLDER)
        ]


def _faults(rng: random.Random, deployment: Deployment, seconds: float, bound: float) -> Iterator[Drawn]:
    last = seconds - bound - 30
    for track in _tracks(deployment.tables, is_apart=deployment.is_apart):
        bag: list[tuple[str, str, float, float]] = []
        at = FIRST_FAULT_SECONDS + rng.uniform(0, 15)
        while at < last:
            if not bag:  # every fault comes before one comes again
                bag = rng.sample(track, len(track))
            kind, target, least, most = bag.pop()
            lasts = min(rng.uniform(least, most), last - at)
            if lasts >= least and not _is_quiet(at, at + lasts, bound):
                yield Drawn(kind, target, round(at, 1), round(lasts, 1), rng.random())
            at += lasts + rng.uniform(3, 25)


def _is_quiet(at: float, until: float, bound: float) -> bool:
    """Whether the time touches a quiet spell between two bursts."""
    period = BURST_SECONDS + bound + 30
    begin = (at - FIRST_FAULT_SECONDS) % period
    return begin + (until - at) > BURST_SECONDS


def draw_cluster(plan: Plan, number: int) -> tuple[Scenario, list[dict[str, Any]]]:
    """Return a cluster with its troubles, and the expected findings other than of queues."""
    rng = random.Random(f"{plan.seed} cluster {number}")
    groups: list[dict[str, Any]] = []
    happenings: list[dict[str, Any]] = []
    expected: list[dict[str, Any]] = []
    for index in range(TWINS + STUCK):
        name, is_of_twins = f"group-{index}", index < TWINS
        groups.append(_group(name, index, with_twin=is_of_twins))
        for at, until in _spells(rng, plan.seconds):
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
    for at, until in _spells(rng, plan.seconds):
        slow = {"at": at, "until": until, "action": "slow_broker", "broker_name": "broker-b", "latency_ms": 2000}
        happenings.append(slow)
        expected.append({"kind": "broker_isolated", "broker_name": "broker-b", "from": at, "until": until})
    versions = ("5.3.3", "4.9.8", "5.1.4")
    fields = {
        "description": "A cluster of the storm.",
        "cluster": f"storm-{number}",
        "brokers": ["broker-a", "broker-b"],
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
    return parse_scenario(fields), expected


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

    Queues of one group and topic are one episode. Starved queues of twins are left to the twins' own page.
    """
    simulation: TrueSimulation = watch.simulation
    spans: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, int | None, int, int]]] = {}
    for fact in facts_of(simulation):
        if fact.kind not in ("starved_queue", "duplicate_client_id", "broker_isolated") or not fact.required:
            continue
        if fact.kind == "starved_queue" and fact.cause != "pull_stopped":
            continue
        names = ("consumer_group", "topic", "broker_name", "client_id")
        labels = {name: value for name in names if (value := getattr(fact, name))}
        if fact.kind == "starved_queue":
            del labels["broker_name"]  # its alert is of the topic
        end_ms = None if fact.end_ms is None or fact.end_ms > simulation.now_ms else fact.end_ms
        after_ms = round(RECOVERY_SECONDS.get(fact.kind, 0) * 1000)
        over_ms = 0 if end_ms is None else fact.resolve_by_ms - end_ms + after_ms + 2 * INTERVAL_MS
        certain_ms = fact.detect_by_ms - fact.start_ms + 2 * INTERVAL_MS
        key = fact.kind, tuple(sorted({"cluster": simulation.scenario.cluster, **labels}.items()))
        spans.setdefault(key, []).append((fact.start_ms, end_ms, certain_ms, over_ms))
    for (kind, pairs), found in spans.items():
        for from_ms, until_ms, certain_ms, over_ms in _joined(found):
            yield Episode(kind, dict(pairs), from_ms, until_ms, certain_ms, over_ms)


def _joined(
    spans: Sequence[tuple[int, int | None, int, int]],
) -> Iterator[tuple[int, int | None, int, int]]:
    """Join queues that starve at the same time: the first proves the page, the last the end."""
    current: tuple[int, int | None, int, int] | None = None
    for span in sorted(spans, key=lambda one: one[0]):
        if current is None or (current[1] is not None and span[0] > current[1]):
            if current is not None:
                yield current
            current = span
        else:
            until_ms = None if None in (current[1], span[1]) else max(current[1] or 0, span[1] or 0)
            current = current[0], until_ms, max(current[2], span[2]), max(current[3], span[3])
    if current is not None:
        yield current
