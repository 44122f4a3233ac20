"""`balancewatch maintain`: drop old rows, compact small files, delete unused files; or a dry run."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.filesize import decimal
from rich.table import Table

from schemas.tables import TABLES
from streaming.maintenance.upkeep import Plan, Report
from streaming.maintenance.upkeep import maintain as upkeep
from streaming.terminal.command import fail, load
from streaming.terminal.format_option import format_option
from streaming.terminal.setting_options import Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import write_json
from streaming.text.times import wall_ms
from streaming.warehouse.warehouse_error import NotWrittenError

SUMMED = ("rows", "files", "bytes", "rows_dropped", "files_compacted", "files_made", "files_deleted", "bytes_deleted")


def maintain(
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Table to maintain; repeatable. Default: all.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done; change nothing.")] = False,
    retention: Annotated[
        bool, typer.Option("--retention/--no-retention", help="Drop rows older than [maintain.retention_days].")
    ] = True,
    format_: Annotated[str, format_option("table", "json")] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Drop old rows, compact small files and delete unused files. Run it once a day; `run` may write meanwhile.

    Rows of the current state and files that a reader may still need are always kept.

    Example: balancewatch maintain --dry-run

    Example: balancewatch maintain --table alerts --table assignments --no-retention

    Example: 17 3 * * * balancewatch maintain --format json >> /var/log/balancewatch/maintain.json
    """
    for name in table or []:
        if name not in TABLES:
            fail(f"--table {name!r}: choose one of {', '.join(TABLES)}", code=2)
    settings = load(paths={"warehouse": warehouse})
    plan = Plan(tuple(dict.fromkeys(table or TABLES)), retention, dry_run)
    try:
        with VisibleConsole(stderr=True, force_terminal=sys.stderr.isatty()).status("opening the tables") as status:
            reports = list(upkeep(settings, plan, wall_ms(), status.update))
    except NotWrittenError as error:
        fail(str(error))
    if format_ == "json":
        write_json([asdict(report) for report in reports])
    else:
        _print_table(reports)
    failed = [f"{report.table}: {report.failed}" for report in reports if report.failed]
    if failed:
        fail("; ".join(failed))


def _print_table(reports: list[Report]) -> None:
    dry_run = reports[0].dry_run
    table = Table(caption="Dry run: nothing was changed." if dry_run else None)
    for name in ("table", "rows", "expired", "files", "compacted", "size", "unused files"):
        table.add_column(name, justify="left" if name == "table" else "right", no_wrap=name == "table")
    total = Report("all", dry_run)
    for name in SUMMED:
        setattr(total, name, sum(getattr(report, name) for report in reports))
    for report in [*reports, total]:
        if report is total:
            table.add_section()
        made = f"{'≤ ' if dry_run else ''}{report.files_made:,}"
        table.add_row(
            report.table,
            f"{report.rows:,}",
            f"-{report.rows_dropped:,}" if report.rows_dropped else "",
            f"{report.files:,}",
            f"{report.files_compacted:,} → {made}" if report.files_compacted else "",
            decimal(report.bytes),
            f"-{report.files_deleted:,} ({decimal(report.bytes_deleted)})" if report.files_deleted else "",
        )
    VisibleConsole().print(table)
