"""`make score`: every scenario, many seeds, through the rules the stream runs; a table, and JSON beside it.

Example: python -m tests.score --seeds 3 --scenario twins --scenario split_view
"""

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from streaming.ingest.simulator import Simulation, load_scenario, scenario_names
from tests.replay import Stream
from tests.score.claims import claims_of, pages_of
from tests.score.match import Key, Tally, compare
from tests.score.truths import facts_of

START_MS = 1_789_000_000_000
SLICE_EVENTS = 20_000
DAY_MS = 86_400_000
CHURN = "churn"
"""The scenario of healthy days."""


def play(name: str, seed: int, duration_ms: int | None) -> tuple[Simulation, list[dict[str, Any]]]:
    """One run to its end, and every alert row of it."""
    simulation = Simulation(load_scenario(name), seed, START_MS)
    stream, alerts, batch = Stream(), [], []
    for event in simulation.events(duration_ms):
        batch.append(event)
        if len(batch) == SLICE_EVENTS:
            alerts += stream.feed(batch).get("alerts", [])
            batch = []
    alerts += stream.feed(batch).get("alerts", [])
    return simulation, alerts


def main() -> None:
    """Play, compare, print; exit code 1 when something that must be told was missed, or was told wrongly."""
    arguments = _arguments()
    names = arguments.scenario or [name for name in scenario_names() if name not in (CHURN, "demo")]
    tallies: dict[Key, Tally] = {}
    false_pages: Counter[str] = Counter()
    pages: Counter[str] = Counter()
    began, events_days = time.monotonic(), 0.0
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    jobs = [(name, seed, None) for name in names for seed in seeds]
    jobs += [(CHURN, seed, int(arguments.days / len(seeds) * DAY_MS)) for seed in seeds if arguments.days]
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("scenarios", total=len(jobs))
        for name, seed, duration_ms in jobs:
            progress.update(task, description=f"{name} {seed}")
            simulation, alerts = play(name, seed, duration_ms)
            paged = pages_of(alerts)
            pages[name] += len(paged)
            if load_scenario(name).healthy:
                events_days += (simulation.now_ms - START_MS) / DAY_MS
                false_pages.update(f"{name}: {row['kind']} {row['cause']}" for row in paged.values())
            found = compare(claims_of(alerts), list(facts_of(simulation)), f"{name} {seed}", START_MS)
            for key, tally in found.items():
                tallies.setdefault(key, Tally()).add(tally)
            progress.advance(task)
    report = _report(tallies, arguments.seeds, events_days, false_pages, pages, time.monotonic() - began)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    _print(report)
    print(f"written to {arguments.json}")
    sys.exit(1 if any(row["missed"] or row["wrong"] for row in report["kinds"]) or false_pages else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make score", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="runs a scenario")
    parser.add_argument("--first-seed", type=int, default=1, help="seeds that nobody has tuned for")
    parser.add_argument("--scenario", action="append", help="only this one; repeat for more")
    parser.add_argument("--days", type=float, default=100.0, help="modelled days of healthy churn, over all seeds")
    parser.add_argument("--json", type=Path, default=Path(".score/score.json"))
    return parser.parse_args()


def _report(
    tallies: dict[Key, Tally],
    seeds: int,
    days: float,
    false_pages: Counter[str],
    pages: Counter[str],
    seconds: float,
) -> dict[str, Any]:
    kinds = []
    for (kind, cause), tally in sorted(tallies.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        delays = sorted(delay for delay, _ in tally.delays_ms)
        kinds.append(
            {
                "kind": kind,
                "cause": cause,
                "required": tally.required,
                "recall": tally.told / tally.required if tally.required else None,
                "claims": tally.claims,
                "precision": tally.right / tally.claims if tally.claims else None,
                "delay_p50_s": statistics.median(delays) / 1000 if delays else None,
                "delay_max_s": delays[-1] / 1000 if delays else None,
                "bound_s": max(bound for _, bound in tally.delays_ms) / 1000 if delays else None,
                "missed": tally.missed,
                "wrong": tally.wrong,
            }
        )
    return {
        "seeds": seeds,
        "seconds": round(seconds, 1),
        "healthy_days": round(days, 2),
        "false_pages": dict(false_pages),
        "pages": dict(sorted(pages.items())),
        "kinds": kinds,
    }


def _print(report: dict[str, Any]) -> None:
    table = Table(title=f"{report['seeds']} seeds a scenario, {report['seconds']:.0f} s")
    for column in ("kind", "cause", "facts", "recall", "claims", "precision", "delay p50", "max", "bound"):
        table.add_column(column, justify="left" if column in ("kind", "cause") else "right", overflow="fold")
    for row in report["kinds"]:
        table.add_row(
            row["kind"],
            row["cause"] or "",
            str(row["required"]),
            _share(row["recall"]),
            str(row["claims"]),
            _share(row["precision"]),
            *(_seconds(row[name]) for name in ("delay_p50_s", "delay_max_s", "bound_s")),
        )
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    print(f"pages in {report['healthy_days']} healthy days: {sum(report['false_pages'].values())}")
    for what, count in report["false_pages"].items():
        print(f"  {count} x {what}")
    for row in report["kinds"]:
        for name in ("missed", "wrong"):
            for one in row[name][:10]:
                print(f"{name}: {one}")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"


if __name__ == "__main__":
    main()
