"""`balancewatch run`: the streaming query, its metrics and the relay in one process."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer

from conf.settings import Settings, SettingsError
from schemas.tables import TABLES
from streaming.logs.jvm_lines import JvmLines
from streaming.metrics.instruments import instruments_of
from streaming.queries import balance
from streaming.queries.written_batch import WrittenBatch
from streaming.relay.relay import Relay
from streaming.service.service import Service
from streaming.system.known_error import BalancewatchError
from streaming.system.stopping import stop_on_signals
from streaming.system.systemd_watchdog import systemd_watchdog
from streaming.terminal.command import fail, load, needs_kafka, run_or_exit
from streaming.terminal.setting_options import BootstrapServers, Checkpoints, Warehouse
from streaming.warehouse.occupancy import occupying, work_folders

log = structlog.get_logger()


class BatchLog:
    """A BatchListener that logs the number of rows that a batch wrote to each table."""

    def on_batch(self, batch: WrittenBatch) -> None:
        written = {table: len(rows) for table, rows in sorted(batch.rows.items()) if rows and table in TABLES}
        if written:
            log.info("batch written", query=batch.query, batch_id=batch.batch_id, **written)


def run(
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process all messages that are in Kafka now, then stop.")
    ] = False,
    seconds: Annotated[float | None, typer.Option(help="Stop after this number of seconds.", min=1)] = None,
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
    checkpoints: Checkpoints = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", help="Rules file, reloaded when it changes [rules.file]")
    ] = None,
) -> None:
    """Run the streaming query: read events from Kafka, write verdicts and alerts to Delta, notify receivers [oncall].

    Example: balancewatch run --bootstrap-servers kafka-1:9092,kafka-2:9092

    Example: balancewatch run --available-now
    """
    stop = stop_on_signals()

    settings = load(
        on_refusal=None if available_now else _notify_refusal,
        kafka={"bootstrap_servers": bootstrap_servers},
        paths={"warehouse": warehouse, "checkpoints": checkpoints},
        rules={"file": None if rules is None else str(rules)},
    )
    needs_kafka(settings)

    def work() -> None:
        with (
            only_run(settings),
            instruments_of(settings, balance.NAME, is_lasting=not available_now) as instruments,
            systemd_watchdog(instruments.reasons_not_alive if instruments is not None else tuple),
            Service(
                settings,
                available_now=available_now,
                listeners=(BatchLog(),),
                jvm_log=JvmLines(stop),
                notifies=settings.oncall.enabled,
                with_canary=True,
                instruments=instruments,
                stop=stop,
                retries=settings.oncall.enabled and not available_now,
            ) as service,
        ):
            service.wait(stop, seconds)

    try:
        run_or_exit(work, ending=stop)
    except SettingsError as error:
        fail(str(error), code=2)


def _notify_refusal(why: str, flags: dict[str, Any]) -> None:
    """Notify the receivers of an invalid setting, if those of the relay are valid and no other relay is at work."""
    try:
        settings = Settings.load_for_relay(**flags)
        if settings.oncall.enabled and settings.oncall.has_receivers:
            with occupying("relay", "run", work_folders(settings)):
                Relay.notify_failure(settings, why)
    except (SettingsError, BalancewatchError, OSError) as error:
        log.warning("receivers not notified", reason=str(error))


def only_run(settings: Settings) -> AbstractContextManager[None]:
    """Hold the tables and checkpoints exclusively, and the relay's lease if this process notifies.

    Raises OccupiedError.
    """
    return occupying(("run", "relay") if settings.oncall.enabled else "run", "run", work_folders(settings))
