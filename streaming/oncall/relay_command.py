"""`balancewatch relay`: the relay in a process of its own, once, or only shown."""

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conf.location import is_store
from streaming.command import fail, guard, load
from streaming.stopping import stop_on_signals

if TYPE_CHECKING:
    from conf.settings import Settings
    from streaming.oncall.relay_thread import RelayThread

ONCE_SECONDS = 120.0
WAIT_SECONDS = 0.5

SMALL = {"master": "local[1]", "driver_memory": "512m"}
"""Its Spark only reads one table; in an object store it needs none."""


def relay(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be told to whom now, and why; send and write nothing.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Deliver what is due and end; no JVM is started.")] = False,
    seconds: Annotated[float | None, typer.Option(help="End after so many seconds.", min=1)] = None,
    format_: Annotated[str, typer.Option("--format", help="With --dry-run: table, json or csv.")] = "table",
    warehouse: Annotated[
        str | None, typer.Option("--warehouse", help="Delta tables: a folder, or s3://bucket/prefix [paths.warehouse]")
    ] = None,
    checkpoints: Annotated[
        Path | None, typer.Option("--checkpoints", help="Folder of the checkpoints [paths.checkpoints]")
    ] = None,
) -> None:
    """Tell people: every alert to the receivers its route names, until each has it. `run` does this itself.

    Give it a process of its own where the queries' machine must not reach the receivers: set oncall.enabled = false
    for `run`, or the second of the two ends at once. Its watchdog attests the relay alone.

    Routes, receivers and the limit are taken again when their files change. It ends with 1 when Spark is gone.

    Example: balancewatch relay --dry-run

    Example: BALANCEWATCH_ONCALL__ENABLED=false balancewatch run & balancewatch relay

    Example: balancewatch relay --once; echo $?   # 1 when a receiver could not be reached
    """
    stop = threading.Event() if dry_run else stop_on_signals()
    from conf.settings import SettingsError

    if format_ not in ("table", "json", "csv"):
        fail(f"--format {format_!r}: choose table, json or csv", code=2)
    if dry_run and once:
        fail("give --dry-run or --once, not both", code=2)
    settings = load(paths={"warehouse": warehouse, "checkpoints": checkpoints})
    try:
        if dry_run:
            _show(settings, format_)
        elif once:
            guard(_deliver_once, settings, stop, ending=stop)
        else:
            guard(_run, settings, seconds, stop, ending=stop)
    except SettingsError as error:
        fail(str(error), code=2)


def _run(settings: "Settings", seconds: float | None, stop: threading.Event) -> None:
    from streaming.jvm_lines import JvmLines
    from streaming.metrics.instruments import relay_instruments
    from streaming.occupancy import occupying, work_folders
    from streaming.oncall.relay_thread import RelayLostError, RelayThread
    from streaming.session import start_spark

    sessions: list[Any] = []
    with occupying("relay", "relay", work_folders(settings)), relay_instruments(settings) as instruments:
        ears = None if instruments is None else instruments.deliveries
        if stop.is_set():  # a JVM that is started now would not hear of it
            return
        thread = RelayThread(settings, lambda: sessions[0], expects_canary=True, ears=ears)
        if not is_store(settings.paths.warehouse):
            small = settings.model_copy(update={"spark": settings.spark.model_copy(update=SMALL)})
            sessions.append(start_spark(small, JvmLines(stop)))
        if instruments is not None:
            instruments.begin(sessions[0] if sessions else None, runs_queries=False, tells_people=True)
            instruments.vitals.watch("relay", thread.is_alive)
        thread.start()
        lost = _wait(thread, settings, stop, seconds)
        if instruments is not None:
            instruments.vitals.stop()
        thread.stop()
        for session in sessions:
            with suppress(Exception):  # it may be gone already
                session.stop()
    if lost is not None:
        raise RelayLostError(f"{lost}; start the relay again, it goes on from the tables")


def _wait(thread: "RelayThread", settings: "Settings", stop: threading.Event, seconds: float | None) -> str | None:
    """Until `stop` is set, the seconds are over, or new alerts no longer come: then why."""
    from streaming.rules_watch import RulesWatch

    watch, known = RulesWatch(settings), settings
    deadline = None if seconds is None else time.monotonic() + seconds
    while not stop.wait(WAIT_SECONDS) and (deadline is None or time.monotonic() < deadline):
        if (lost := thread.lost()) is not None:
            return lost
        changed = watch.look_now_and_then()
        if changed is not None and changed.oncall != known.oncall:
            known = changed
            thread.renew(changed)
    return None


def _deliver_once(settings: "Settings", stop: threading.Event) -> None:
    from streaming.occupancy import occupying, work_folders

    warehouse = work_folders(settings)["paths.warehouse"]
    with occupying("relay", "relay --once", {"paths.warehouse": warehouse}):
        _deliver(settings, stop)


def _deliver(settings: "Settings", stop: threading.Event) -> None:
    from streaming.oncall.ledger import Ledger, Words
    from streaming.oncall.relay import Relay
    from streaming.oncall.switchboard import make_receivers

    receivers = make_receivers(settings.oncall)
    warehouse = settings.paths.warehouse
    one = Relay(settings.oncall, Ledger(warehouse), Words(warehouse), receivers)
    try:
        one.finish(ONCE_SECONDS, stop)
    finally:
        one.close()
    late = sorted({name for name, box in one.desk.outboxes.items() if any(box.owed())})
    if late and not stop.is_set():
        due = sum(1 for _ in one.owed())
        fail(f"{due} notices are still due to {', '.join(late)}; alert_deliveries says why, and they stay due")


def _show(settings: "Settings", format_: str) -> None:
    from streaming.history.alerts import WarehouseError
    from streaming.history.printing import print_rows
    from streaming.oncall.plan import plan_rows

    try:
        rows = plan_rows(settings)
    except WarehouseError as error:
        fail(str(error))
    if format_ == "table" and rows:
        _print_table(rows)
    else:
        print_rows(rows, format_, "Nothing is due to anybody.")  # type: ignore[arg-type]  # checked above


def _print_table(rows: list[dict[str, Any]]) -> None:
    """Whom and why beside what: eight columns fit no terminal."""
    from rich.table import Table
    from rich.text import Text

    from streaming.console import VisibleConsole

    table = Table(show_lines=True)
    table.add_column("to whom, and why", overflow="fold", max_width=36)
    table.add_column("what", overflow="fold")
    for row in rows:
        whom = f"{row['receiver']}" + (f"\nby route {row['route']}" if row["route"] else "") + f"\n{row['why']}"
        what = f"{row['status']} {row['kind']} {row['severity']} ({row['incident_id']})\n{row['summary']}"
        table.add_row(Text(whom), Text(what))
    VisibleConsole().print(table)
