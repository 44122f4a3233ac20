"""`balancewatch relay`: the relay in a process of its own, once, or only shown."""

import threading
import time
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from conf.settings import Settings, SettingsError
from streaming.metrics.instruments import FOLLOWER, relay_instruments
from streaming.oncall.delivery_log import DeliveryLog, OperatorInput
from streaming.oncall.mute import make_mutes
from streaming.oncall.plan import plan_rows
from streaming.oncall.relay import Relay
from streaming.oncall.relay_thread import RelayThread
from streaming.oncall.wiring import make_receivers
from streaming.service.settings_reload import SettingsReload
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail, load, run_or_exit
from streaming.terminal.printing import print_rows
from streaming.terminal.setting_options import Checkpoints, Warehouse
from streaming.text.console import VisibleConsole
from streaming.warehouse.occupancy import occupying, work_folders
from streaming.warehouse.warehouse_error import WarehouseError

ONCE_SECONDS = 120.0
WAIT_SECONDS = 0.5


def relay(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be told to whom now, and why; send and write nothing.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Deliver what is due and end.")] = False,
    seconds: Annotated[float | None, typer.Option(help="End after so many seconds.", min=1)] = None,
    format_: Annotated[str, typer.Option("--format", help="With --dry-run: table, json or csv.")] = "table",
    warehouse: Warehouse = None,
    checkpoints: Checkpoints = None,
) -> None:
    """Tell people: every alert to the receivers its route names, until each has it. `run` does this itself.

    Give it a process of its own where the queries' machine must not reach the receivers: set oncall.enabled = false
    for `run`, or the second of the two ends at once. Its watchdog attests the relay alone.

    Routes, receivers, mutes and the limit are taken again when their files change. It starts no JVM: it follows the
    log of the table `alerts`, every oncall.poll_seconds.

    Example: balancewatch relay --dry-run

    Example: BALANCEWATCH_ONCALL__ENABLED=false balancewatch run & balancewatch relay

    Example: balancewatch relay --once; echo $?   # 1 when a receiver could not be reached
    """
    stop = threading.Event() if dry_run else stop_on_signals()

    if format_ not in ("table", "json", "csv"):
        fail(f"--format {format_!r}: choose table, json or csv", code=2)
    if dry_run and once:
        fail("give --dry-run or --once, not both", code=2)
    settings = load(paths={"warehouse": warehouse, "checkpoints": checkpoints})
    try:
        if dry_run:
            _show(settings, format_)
        elif once:
            run_or_exit(_deliver_once, settings, stop, ending=stop)
        else:
            run_or_exit(_run, settings, seconds, stop, ending=stop)
    except SettingsError as error:
        fail(str(error), code=2)


def _run(settings: Settings, seconds: float | None, stop: threading.Event) -> None:
    with occupying("relay", "relay", work_folders(settings)), relay_instruments(settings) as instruments:
        if stop.is_set():
            return
        listener = None if instruments is None else instruments.deliveries
        on_read = None if instruments is None else instruments.follow(FOLLOWER)
        thread = RelayThread(
            settings, follows_log=True, expects_canary=True, listener=listener, on_read=on_read or (lambda: None)
        )
        if instruments is not None:
            instruments.begin(None, runs_queries=False, notifies=True)
            instruments.liveness.watch("relay", thread.is_alive)
        thread.start()
        _wait(thread, settings, stop, seconds)
        if instruments is not None:
            instruments.liveness.stop()
        thread.stop()


def _wait(thread: RelayThread, settings: Settings, stop: threading.Event, seconds: float | None) -> None:
    """Until `stop` is set or the seconds are over. Changed settings are taken."""
    watch, known = SettingsReload(settings), settings
    deadline = None if seconds is None else time.monotonic() + seconds
    while not stop.wait(WAIT_SECONDS) and (deadline is None or time.monotonic() < deadline):
        changed = watch.look_now_and_then()
        if changed is not None and (changed.oncall, changed.mutes) != (known.oncall, known.mutes):
            known = changed
            thread.renew(changed)


def _deliver_once(settings: Settings, stop: threading.Event) -> None:

    warehouse = work_folders(settings)["paths.warehouse"]
    with occupying("relay", "relay --once", {"paths.warehouse": warehouse}):
        _deliver(settings, stop)


def _deliver(settings: Settings, stop: threading.Event) -> None:

    receivers = make_receivers(settings.oncall, settings.runbooks_url)
    warehouse = settings.paths.warehouse
    mutes = make_mutes(settings.mutes)
    one = Relay(settings.oncall, DeliveryLog(warehouse), OperatorInput(warehouse), receivers, mutes=mutes)
    try:
        one.finish(ONCE_SECONDS, stop)
    finally:
        one.close()
    late = sorted({name for name, box in one.policy.outboxes.items() if any(box.owed())})
    if late and not stop.is_set():
        due = sum(1 for _ in one.owed())
        fail(f"{due} notices are still due to {', '.join(late)}; alert_deliveries says why, and they stay due")


def _show(settings: Settings, format_: str) -> None:

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

    table = Table(show_lines=True)
    table.add_column("to whom, and why", overflow="fold", max_width=36)
    table.add_column("what", overflow="fold")
    for row in rows:
        whom = f"{row['receiver']}" + (f"\nby route {row['route']}" if row["route"] else "") + f"\n{row['why']}"
        what = f"{row['status']} {row['kind']} {row['severity']} ({row['incident_id']})\n{row['summary']}"
        table.add_row(Text(whom), Text(what))
    VisibleConsole().print(table)
