"""`balancewatch canary`: seconds from injection to delivery of canary alerts."""

from statistics import quantiles
from typing import Annotated, Any

import typer

from streaming.relay.canary import lost_after_ms, read_canaries
from streaming.terminal.command import fail, load
from streaming.terminal.printing import print_rows
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say
from streaming.text.times import wall_ms
from streaming.warehouse.warehouse_error import WarehouseError


def canary(
    last: Annotated[int, typer.Option(help="Newest canary alerts to show.", min=1, max=10_000, metavar="N")] = 20,
    format_: Annotated[str, typer.Option("--format", help="table, json or csv.", metavar="FORMAT")] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Print how long canary alerts took from injection to delivery.

    A canary is a simulated twin that `run` injects. Exit code 1: no canary alert arrived for two intervals and a
    minute.

    Example: balancewatch canary

    Example: balancewatch canary --format json --last 288 | jq 'map(.seconds) | max'
    """
    if format_ not in ("table", "json", "csv"):
        fail(f"--format {format_!r}: choose table, json or csv", code=2)
    settings = load(paths={"warehouse": warehouse})
    if not settings.canary.interval_seconds:
        fail("canary.interval_seconds = 0: the canary is off; set the interval in seconds, such as 300", code=2)
    try:
        arrived = read_canaries(settings.paths.warehouse, last)
    except WarehouseError as error:
        fail(str(error))
    print_rows([one.row() for one in arrived], format_, "No canary alert has arrived yet.")  # type: ignore[arg-type]  # checked above
    if arrived and format_ == "table":
        say(_summary([one.seconds for one in arrived], settings.canary.slo_seconds))
    age_ms = wall_ms() - arrived[-1].delivered_at_ms if arrived else None
    if age_ms is None or age_ms > lost_after_ms(settings):
        newest = "none has arrived" if age_ms is None else f"the newest arrived {age_ms // 60_000} min ago"
        fail(f"canary lost: {newest}, but one is due every {settings.canary.interval_seconds:g} s; is `run` up?")


def _summary(seconds: list[float], slo_seconds: float) -> str:
    kept = sum(one <= slo_seconds for one in seconds) / len(seconds)
    cuts: list[Any] = quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else seconds * 19
    return (
        f"injection to delivery: median {cuts[9]:.1f} s, 95 % within {cuts[18]:.1f} s, worst {max(seconds):.1f} s; "
        f"{kept:.1%} within canary.slo_seconds = {slo_seconds:g}"
    )
