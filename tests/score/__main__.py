"""`make score`: every scenario, many seeds, through the rules the stream runs; a table, and JSON beside it.

Example: python -m tests.score --seeds 3 --scenario twins --scenario split_view
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.score.match import Key, Tally
from tests.score.run import DAY_MS, Run, Score, runs, score


def main() -> None:
    """Play, compare, print; exit code 1 when something that must be told was missed, or was told wrongly."""
    arguments = _arguments()
    began = time.monotonic()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    todo = runs(arguments.scenario, seeds, arguments.days)
    scores = _score_all(todo, arguments.jobs)
    report = {"seeds": arguments.seeds, "seconds": round(time.monotonic() - began, 1), **_report(todo, scores)}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    _print(report)
    print(f"written to {arguments.json}")
    is_wrong = any(row["missed"] or row["wrong"] for row in report["kinds"])
    sys.exit(1 if is_wrong or report["false_pages"] else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make score", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="runs a scenario")
    parser.add_argument("--first-seed", type=int, default=1, help="seeds that nobody has tuned for")
    parser.add_argument("--scenario", action="append", help="only this one; repeat for more")
    parser.add_argument("--days", type=float, default=100.0, help="modelled days of healthy churn, over all seeds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that share the runs")
    parser.add_argument("--json", type=Path, default=Path(".score/score.json"))
    return parser.parse_args()


def _score_all(todo: Sequence[Run], jobs: int) -> list[Score]:
    """In the order of `todo`, however many processes share it. An error ends all of it."""
    with (
        Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress,
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
    ):
        futures = [pool.submit(score, run) for run in todo]
        try:
            for future in progress.track(as_completed(futures), len(futures), description="scenarios"):
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return [future.result() for future in futures]


def _report(todo: Sequence[Run], scores: Sequence[Score]) -> dict[str, Any]:
    tallies: dict[Key, Tally] = {}
    false_pages: Counter[str] = Counter()
    pages: Counter[str] = Counter()
    for run, one in zip(todo, scores, strict=True):
        pages[run.name] += one.pages
        false_pages.update(f"{run.name}: {what}" for what in one.false_pages)
        for key, tally in one.tallies.items():
            tallies.setdefault(key, Tally()).add(tally)
    return {
        "healthy_days": round(sum(one.healthy_ms for one in scores) / DAY_MS, 2),
        "false_pages": dict(false_pages),
        "pages": dict(sorted(pages.items())),
        "kinds": _kinds(tallies),
    }


def _kinds(tallies: dict[Key, Tally]) -> list[dict[str, Any]]:
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
    return kinds


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
