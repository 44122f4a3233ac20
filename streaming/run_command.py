"""`balancewatch run`: the service, its metrics, and what tells people, in one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.command import fail, guard, load, needs_kafka
from streaming.stopping import stop_on_signals

if TYPE_CHECKING:
    from conf.settings import Settings


def run(
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Work through all that is in Kafka, then stop.")
    ] = False,
    seconds: Annotated[float | None, typer.Option(help="End after so many seconds.", min=1)] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option("--bootstrap-servers", help="Kafka brokers, host:port,host:port [kafka.bootstrap_servers]"),
    ] = None,
    warehouse: Annotated[
        str | None, typer.Option("--warehouse", help="Delta tables: a folder, or s3://bucket/prefix [paths.warehouse]")
    ] = None,
    checkpoints: Annotated[
        Path | None, typer.Option("--checkpoints", help="Folder of the checkpoints [paths.checkpoints]")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", help="Rules file; taken again when it changes [rules.file]")
    ] = None,
) -> None:
    """Run the streaming query, events from Kafka, verdicts and alerts to Delta, and tell people [oncall].

    Example: balancewatch run --bootstrap-servers kafka-1:9092,kafka-2:9092

    Example: balancewatch run --available-now
    """
    stop = stop_on_signals()
    from conf.settings import SettingsError
    from streaming.jvm_lines import JvmLines
    from streaming.metrics.instruments import run_instruments
    from streaming.service import Service, progress_logger

    settings = load(
        kafka={"bootstrap_servers": bootstrap_servers},
        paths={"warehouse": warehouse, "checkpoints": checkpoints},
        rules={"file": None if rules is None else str(rules)},
    )
    needs_kafka(settings)

    def work() -> None:
        with (
            only_run(settings),
            run_instruments(settings, is_lasting=not available_now) as instruments,
            Service(
                settings,
                available_now=available_now,
                on_rows=progress_logger(),
                jvm_log=JvmLines(stop),
                tells_people=settings.oncall.enabled,
                with_canary=True,
                instruments=instruments,
                stop=stop,
            ) as service,
        ):
            service.wait(stop, seconds)

    try:
        guard(work, ending=stop)
    except SettingsError as error:
        fail(str(error), code=2)


@contextmanager
def only_run(settings: "Settings") -> Iterator[None]:
    """Nobody else runs on these tables or checkpoints, nor, where it tells people, tells them of these tables.

    Raises OccupiedError.
    """
    from streaming.occupancy import occupying, work_folders

    folders = work_folders(settings)
    with occupying("run", "run", folders), occupying("relay", "run", folders if settings.oncall.enabled else {}):
        yield
