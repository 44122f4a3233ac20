"""`make storm`: the complete alert path under drawn faults, several at a time; what receivers got against the truth.

A modelled cluster publishes to a real Kafka in real time; `run` and its relay page three receivers. One seed draws the
troubles of the cluster and the faults of the path. Legs of at most half an hour alternate between tables in a folder
and in a bucket, each on an empty deployment. Exit code 1 if a page is lost, an alert ends early, a notification
arrives twice without a reason, or nothing was due.

Examples:
  make storm                                   an hour, seed 1
  make storm ARGS="--hours 2 --seed 7"
  make storm ARGS="--minutes 12 --seed 7"      two legs, a folder and a bucket
  make storm ARGS="--only power_cut --only kill"
  make storm ARGS="--minutes 10 --calm"        without faults
  python -m tests.lab.storm.checker .storm/1763881200/leg-1     judge a played leg again
"""

import argparse
import itertools
import json
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from conf.settings import Settings
from tests.lab.storm.checker import Storm, Verdict, judge, read_leg
from tests.lab.storm.drawn import Deployment, draw_deployment, draw_plan, kinds_of
from tests.lab.storm.stage import Stage
from tests.support.laboratory import say, stop_on_signals
from tests.support.scratch_kafka import scratch_kafka

LEG_SECONDS = 1_800.0
LEAST_LEG_SECONDS = 360.0
LEAST_SECONDS = 120.0
"""A leg is this much longer than its bound."""

RETRY_SECONDS, STARTS = 90.0, 2
"""Of the bound. `run` pauses up to a minute before it tries again, a receiver is tried again within 5 s, a
poll round takes 10 s; and `run` may have to start, which takes longer on a busy machine."""


KINDS = sorted({name.partition(" ")[0] for name in kinds_of("folder") | kinds_of("bucket")})


@dataclass(frozen=True)
class Leg:
    """A leg that was played, and what the checker says of it."""

    deployment: Deployment
    storm: Storm
    verdict: Verdict
    not_played: dict[str, str]
    damaged: int
    refused: dict[str, int]

    def fields(self) -> dict[str, object]:
        """For the report, the table's columns first."""
        storm, verdict = self.storm, self.verdict
        return {
            "tables": self.deployment.tables,
            "relay": "apart" if self.deployment.is_apart else "in run",
            "hours": round((storm.end_ms - storm.start_ms) / 3_600_000, 2),
            "bound, s": storm.bound_ms // 1000,
            "faults": len(storm.faults),
            "unplanned exits": len(storm.exits),
            "transitions due": verdict.transitions,
            "lost": len(verdict.lost),
            "early ends": len(verdict.early),
            "duplicates, explained": verdict.explained,
            "duplicates, unexplained": len(verdict.duplicates),
            "longest delay after healing, s": round(verdict.longest_ms / 1000),
            "seed": self.deployment.seed,
            "faults by kind": dict(Counter(f"{fault.kind} {fault.target}" for fault in storm.faults)),
            "exits": [asdict(fault) for fault in storm.exits],
            "files damaged": self.damaged,
            "calls refused": self.refused,
            "not played": self.not_played,
            "verdict": asdict(verdict),
        }


def main() -> None:
    options = _arguments()
    folder = Path(".storm") / f"{int(time.time())}-{options.seed}"
    folder.mkdir(parents=True)
    stop = stop_on_signals(say)
    seconds = options.minutes * 60 if options.minutes else options.hours * 3_600
    legs = play_legs(folder.resolve(), options.seed, seconds, stop, options.only or (), options.calm)
    report = {"seed": options.seed, "legs": [leg.fields() for leg in legs]}
    (folder / "storm.json").write_text(json.dumps(report, indent=2) + "\n")
    Console().print(_table(legs))
    for leg in legs:
        for name in ("lost", "early", "duplicates", "unmatched"):
            for sentence in getattr(leg.verdict, name):
                print(f"{name}: {sentence}")
    print(f"not played: {', '.join(_not_played(legs)) or 'nothing'}")
    print(f"written to {folder / 'storm.json'}")
    is_judged = any(leg.verdict.transitions for leg in legs)
    sys.exit(0 if is_judged and all(leg.verdict.is_good for leg in legs) else 1)


def play_legs(
    folder: Path,
    seed: int,
    seconds: float,
    stop: threading.Event,
    only: Collection[str] = (),
    is_calm: bool = False,
) -> list[Leg]:
    """Play legs of equal length, at least one of each kind of tables if there is time."""
    count = max(1, math.ceil(seconds / LEG_SECONDS))
    if count == 1 and seconds >= 2 * LEAST_LEG_SECONDS:
        count = 2
    legs = []
    for number in range(1, count + 1):
        if not stop.is_set():
            leg = folder / f"leg-{number}"
            legs.append(_play(leg, draw_deployment(seed, number), seconds / count, stop, only, is_calm))
    return legs


def _play(
    folder: Path,
    deployment: Deployment,
    seconds: float,
    stop: threading.Event,
    only: Collection[str],
    is_calm: bool,
) -> Leg:
    folder.mkdir(parents=True)
    relay = "a relay apart" if deployment.is_apart else "the relay in run"
    say(f"{folder.name}: {seconds:.0f} s, tables in a {deployment.tables}, {relay}")
    with scratch_kafka(Settings.load().paths.jars) as kafka:
        stage = Stage(deployment, folder, kafka)
        try:
            with stage.opened():
                start_seconds = stage.wait_until_ready(stop)
                bound = round(RETRY_SECONDS + STARTS * start_seconds)
                seconds = max(seconds, bound + LEAST_SECONDS)
                plan = draw_plan(deployment, seconds, bound, start_seconds, only)
                plan = replace(plan, faults=[]) if is_calm else plan
                say(f"run took {start_seconds:.0f} s to start; the bound is {bound:.0f} s; {len(plan.faults)} faults")
                stage.play(plan, stop)
        finally:
            stage.kafka.stop()
    storm, arrivals = read_leg(folder)
    verdict = judge(storm, arrivals)
    say(f"{folder.name}: {verdict.transitions} transitions, {len(verdict.lost)} lost, {len(verdict.early)} early")
    return Leg(deployment, storm, verdict, stage.not_played, len(stage.damaged), dict(stage.bucket.count))


def _table(legs: list[Leg]) -> Table:
    """Return a row for each figure and a column for each leg."""
    table = Table("", *(f"leg {number}" for number in range(1, len(legs) + 1)))
    fields = [leg.fields() for leg in legs]
    for name in itertools.takewhile(lambda name: name != "seed", fields[0] if fields else ()):
        table.add_row(name, *(str(of_leg[name]) for of_leg in fields))
    return table


def _not_played(legs: list[Leg]) -> list[str]:
    """Return the faults that no leg played: those the machine does not permit with the reason."""
    played = {f"{fault.kind} {fault.target}" for leg in legs for fault in leg.storm.faults}
    reasons = {name: why for leg in legs for name, why in leg.not_played.items()}
    missing = (kinds_of("folder") | kinds_of("bucket")) - played
    return sorted(f"{name} ({reasons[name]})" if name in reasons else name for name in missing)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make storm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--hours", type=float, default=1.0, help="of all legs (default: %(default)s)")
    length.add_argument("--minutes", type=float, help="the same in minutes")
    parser.add_argument("--seed", type=int, default=1, help="of troubles and faults (default: %(default)s)")
    parser.add_argument(
        "--only", metavar="KIND", choices=KINDS, action="append", help="one of: %(choices)s; repeatable"
    )
    parser.add_argument("--calm", action="store_true", help="draw no faults")
    return parser.parse_args()


if __name__ == "__main__":
    main()
