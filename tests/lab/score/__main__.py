"""`make score`: every scenario, many seeds, many conditions, through the rules the stream runs; tables, and JSON.

Example: python -m tests.lab.score --seeds 3 --scenario twins --scenario split_view
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tests.lab.score.report import print_report, report_of
from tests.lab.score.run import Run, Score, runs, score

REPORT = Path(".score/score.json")


def main() -> None:
    """Play, compare, print; exit code 1 when something that must be told was missed, or was told wrongly."""
    arguments = _arguments()
    began = time.monotonic()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    names = [] if arguments.days_only else arguments.scenario
    todo = runs(names, seeds, arguments.days, samples=arguments.samples)
    scores = _score_all(todo)
    report = {"seeds": arguments.seeds, "seconds": round(time.monotonic() - began, 1), **report_of(todo, scores)}
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print_report(report, Console(width=None if sys.stdout.isatty() else 140))
    print(f"written to {REPORT}")
    is_wrong = any(row["missed"] or row["wrong"] for row in report["kinds"])
    sys.exit(1 if is_wrong or report["false_pages"] else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make score", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="runs a scenario")
    parser.add_argument("--first-seed", type=int, default=1, help="seeds that nobody has tuned for")
    parser.add_argument("--samples", type=int, default=3, help="conditions a scenario and seed, besides the file's own")
    parser.add_argument("--scenario", action="append", help="only this one; repeat for more")
    parser.add_argument("--days-only", action="store_true", help="no scenario but the healthy days")
    parser.add_argument("--days", type=float, default=100.0, help="modelled days of healthy churn, over all seeds")
    return parser.parse_args()


def _score_all(todo: Sequence[Run]) -> list[Score]:
    """In the order of `todo`, however many processes share it. An error ends all of it."""
    with (
        Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress,
        ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool,
    ):
        futures = [pool.submit(score, run) for run in todo]
        try:
            for future in progress.track(as_completed(futures), len(futures), description="scenarios"):
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return [future.result() for future in futures]


if __name__ == "__main__":
    main()
