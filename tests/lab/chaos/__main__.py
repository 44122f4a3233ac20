"""`make chaos`: every fault the service must survive, one after the other; a table, and exit code 1 on any difference.

Each interrupted run must leave the rows of an uninterrupted one of the same log: no incident lost, none twice, no
pending time counted while the service was down.

Example: python -m tests.lab.chaos --only points --only full_disk
"""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from conf.settings import Settings
from streaming.spark.session import start_spark
from tests.lab.chaos.deliveries import deliveries
from tests.lab.chaos.full_disk import CannotMountError, full_disk
from tests.lab.chaos.history import COLUMNS, Outcome
from tests.lab.chaos.kill_points import QUERY_POINTS, RELAY_POINTS
from tests.lab.chaos.kills import killed_at, kills_under_load
from tests.lab.chaos.modelled_log import modelled_log
from tests.lab.chaos.place import Place
from tests.support.laboratory import say
from tests.support.scratch_kafka import scratch_kafka

PARTS = ("points", "random", "sigkill", "full_disk", "deliveries")
WARM_PARTS = ("points", "random")
"""Their lives share one Spark session; those of the other parts are processes."""

LOG_SECONDS = 900
PASSES = (1, 2, 3, 5)
SITES = 8


def main() -> None:
    options = _arguments()
    table, is_good = Table(*COLUMNS), True
    try:
        for part in options.only or PARTS:
            with _place(is_warm=part in WARM_PARTS) as place:
                began = time.monotonic()
                for outcome in _play(part, place, options):
                    table.add_row(*outcome.cells(time.monotonic() - began))
                    is_good = is_good and outcome.is_good
                    if not outcome.is_good:
                        say(f"{outcome.name}: {outcome.remark}\n{outcome.comparison.describe()}")
                    began = time.monotonic()
    finally:
        Console().print(table)
    sys.exit(0 if is_good else 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.chaos", description=__doc__.split("\n\n", 1)[1])
    parser.add_argument("--only", choices=PARTS, action="append", help="one part instead of all; repeat for more")
    parser.add_argument("--kills", type=int, default=100, help="random kills under load (default: %(default)s)")
    parser.add_argument("--sigkills", type=int, default=8, help="the same of whole processes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the logs and of the moments (default: %(default)s)")
    return parser.parse_args()


def _play(part: str, place: Place, options: argparse.Namespace) -> Iterator[Outcome]:
    if part in ("random", "sigkill"):
        count = options.kills if part == "random" else options.sigkills
        yield kills_under_load(place, f"{part}, under load", count, options.seed)
        return
    if part == "deliveries":
        for point in RELAY_POINTS:
            yield deliveries(place.folder, point, PASSES, options.seed, SITES)
        return
    say(f"{part}: the reference, a run without faults")
    reference = place.reference(modelled_log(LOG_SECONDS, options.seed))
    if part == "points":
        for point in QUERY_POINTS:
            yield killed_at(place, point, PASSES, reference)
    else:
        try:
            yield full_disk(place, "warehouse", reference)
            yield full_disk(place, "checkpoints", reference)
        except CannotMountError as error:
            say(f"full_disk: left out, {error}")


@contextlib.contextmanager
def _place(*, is_warm: bool) -> Iterator[Place]:
    with (
        scratch_kafka(Settings.load().paths.jars) as kafka,
        tempfile.TemporaryDirectory(prefix="balancewatch-chaos-", ignore_cleanup_errors=True) as folder,
    ):
        spark = start_spark(Settings.load(), Path(folder) / "spark.log") if is_warm else None
        try:
            yield Place(kafka, Path(folder), spark)
        finally:
            if spark is not None:
                spark.stop()


if __name__ == "__main__":
    main()
