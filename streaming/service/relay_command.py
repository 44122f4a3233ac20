"""`balancewatch relay`: the relay as a separate process, once, or as a dry run."""

import threading
import time
from typing import Annotated

import typer

from conf.settings import Settings, SettingsError
from streaming.metrics.instruments import instruments_of
from streaming.relay.relay import Relay, plan_rows
from streaming.service.settings_reload import SettingsReload, notification_settings
from streaming.system.stopping import stop_on_signals
from streaming.system.systemd_watchdog import systemd_watchdog
from streaming.terminal.command import fail, load, run_or_exit
from streaming.terminal.format_option import format_option
from streaming.terminal.printing import Layout, print_rows, print_table
from streaming.terminal.setting_options import Checkpoints, Warehouse
from streaming.warehouse.occupancy import occupying, work_folders
from streaming.warehouse.warehouse_error import WarehouseError

ONCE_SECONDS = 120.0
WAIT_SECONDS = 0.5

FOLLOWER = "relay"
"""Query label under which the age of the last read of the table `alerts` is exported."""


def relay(
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print pending notifications with receiver and reason; send and write nothing."),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Deliver pending notifications, then exit.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Stop after this number of seconds.", min=1)] = None,
    format_: Annotated[
        str, format_option("table", "json", "csv", text="With --dry-run: table, json or csv.")
    ] = "table",
    warehouse: Warehouse = None,
    checkpoints: Checkpoints = None,
) -> None:
    """Deliver alerts to the receivers of their routes, with retries. `run` includes this.

    Use it if the machine of `run` must not reach the receivers: set oncall.enabled = false for `run`, or the second
    of the two processes exits at once. Its watchdog covers only the relay.

    It reads the table `alerts` every oncall.poll_seconds without a JVM, and reloads changed settings: routes,
    receivers, mutes, labels and the limit.

    Example: balancewatch relay --dry-run

    Example: BALANCEWATCH_ONCALL__ENABLED=false balancewatch run & balancewatch relay

    Example: balancewatch relay --once; echo $?   # 1: a receiver could not be reached
    """
    stop = threading.Event() if dry_run else stop_on_signals()
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
    """Run the relay until `stop` is set or the time is over; changed settings are reloaded meanwhile."""
    with (
        occupying("relay", "relay", work_folders(settings)),
        instruments_of(settings, FOLLOWER, key="relay_port") as instruments,
        systemd_watchdog(instruments.reasons_not_alive if instruments is not None else tuple),
    ):
        if stop.is_set():
            return

        if instruments is None:
            thread = Relay(settings, has_canary=True)
        else:
            idled, deliveries = instruments.liveness.idled, instruments.deliveries
            thread = Relay(settings, has_canary=True, listener=deliveries, on_read=idled)
            instruments.liveness.started()
            instruments.begin(None, notifies=True)
            instruments.liveness.watch("relay", thread.is_alive)
        thread.start()
        watch, known = SettingsReload(settings), settings
        deadline = None if seconds is None else time.monotonic() + seconds
        while not stop.wait(WAIT_SECONDS) and (deadline is None or time.monotonic() < deadline):
            changed = watch.look_now_and_then()
            if changed is not None and notification_settings(changed) != notification_settings(known):
                known = changed
                thread.renew(changed)
        if instruments is not None:
            instruments.liveness.stop()
        thread.stop()


def _deliver_once(settings: Settings, stop: threading.Event) -> None:
    with occupying("relay", "relay --once", {"paths.warehouse": work_folders(settings)["paths.warehouse"]}):
        relay = Relay(settings)
        relay.load()
        try:
            relay.finish(ONCE_SECONDS, stop)
        finally:
            relay.close()
    counts = {name: box.count() for name, box in relay.owed.outboxes.items()}
    late, due = sorted(name for name, count in counts.items() if count), sum(counts.values())
    if late and not stop.is_set():
        fail(
            f"{due} {'notification is' if due == 1 else 'notifications are'} still pending for {', '.join(late)}; the "
            "table alert_deliveries has the reason; `relay` retries them"
        )


def _show(settings: Settings, format_: str) -> None:
    try:
        rows = plan_rows(settings)
    except WarehouseError as error:
        fail(str(error))
    print_rows(rows, format_, "No notification is pending.", lambda shown: print_table(shown, LAYOUT, show_lines=True))


LAYOUT: Layout = {
    "receiver and reason": lambda row: "\n".join(
        [row["receiver"], *([f"by route {row['route']}"] if row["route"] else []), row["why"]]
    ),
    "alert": lambda row: f"{row['status']} {row['kind']} {row['severity']} ({row['incident_id']})\n{row['summary']}",
}
"""Eight columns do not fit a terminal: receiver and reason beside the alert."""
