"""`balancewatch demo`: embedded Kafka, a simulated cluster, the streaming query, the board and live alerts."""

import contextlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from conf.settings import Settings, SettingsError
from streaming.board.web.app import BoardServer
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher, PublishError
from streaming.queries.written_batch import WrittenBatch
from streaming.service.service import Service
from streaming.simulator.play import play
from streaming.simulator.scenario import ScenarioError, load_scenario
from streaming.simulator.simulation import Simulation
from streaming.spark.jars import java, resolve_jars, spark_jars
from streaming.store.alerts import present_alert
from streaming.system.known_error import BalancewatchError
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail, load, run_or_exit
from streaming.terminal.printing import show_alerts
from streaming.text.output import warn
from streaming.text.times import wall_ms
from streaming.warehouse.occupancy import occupying, work_folders

PAST_SECONDS = 900
"""Length of the simulated past, which is played `speed` times as fast; afterwards the simulation is live."""

MARK = ".balancewatch-demo"
TABLES = ("warehouse", "checkpoints")
MADE = ("kafka", *TABLES, "spark.log")
"""Names that a demo creates, besides its mark and its lock."""

_OPENING = "`balancewatch demo` made this folder"
_WORDS = (
    f"{_OPENING}. The next demo in it deletes {', '.join(MADE)}.\n"
    "Without this file, a demo does not touch the folder.\n"
)


def demo(
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this number of seconds. Default: Ctrl-C.", min=1)
    ] = None,
    scenario: Annotated[str, typer.Option(help="Scenario to play; see `balancewatch simulate --list`.")] = "demo",
    speed: Annotated[float, typer.Option(help="Speed at which the past is replayed.", min=0.1)] = 15.0,
    data_dir: Annotated[
        Path,
        typer.Option(
            help="Folder for Kafka, tables and checkpoints: new, empty, or of an earlier demo, which is overwritten."
        ),
    ] = Path(".demo"),
    with_board: Annotated[bool, typer.Option("--board/--no-board", help="Serve the board on a free port.")] = True,
) -> None:
    """Run a demo: embedded Kafka, a simulated RocketMQ cluster, the streaming query, the board and live alerts.

    Example: balancewatch demo --seconds 90
    """
    stop = stop_on_signals()
    settings = load()
    try:
        load_scenario(scenario)
        check_folder(data_dir)
    except (ScenarioError, DemoFolderError) as error:
        fail(str(error), code=2)
    run_or_exit(_run, settings, stop, data_dir, scenario, speed, seconds, with_board=with_board, ending=stop)


def _run(
    settings: Settings,
    stop: threading.Event,
    folder: Path,
    scenario: str,
    speed: float,
    seconds: float | None,
    *,
    with_board: bool,
) -> None:
    """Run until `stop` is set or `seconds` after the query started. It overwrites an earlier demo in `folder`.

    Before it deletes anything, it checks that no other demo uses the folder, that Java and the jars are there, that the
    board can listen on a free loopback port (without a token unless the environment has one), and that the tables are
    not in use. Raises DemoFolderError, JarsError, OccupiedError.
    """
    printer = AlertPrinter()
    with hold_folder(folder), contextlib.ExitStack() as parts:
        began = time.monotonic()
        java()
        resolve_jars("kafka", settings.paths.jars)
        spark_jars(settings.paths.jars)
        paths = {name: folder / name for name in TABLES} | {"jars": settings.paths.jars}
        board = {"host": "127.0.0.1", "port": 0}
        url = parts.enter_context(_board(Settings.load(paths=paths, board=board))) if with_board else ""
        empty_folder(folder)
        parts.enter_context(occupying("run", "demo", work_folders(Settings.load(paths=paths))))
        warn(f"1/3  starting an embedded Kafka (data in {folder})")
        kafka = EmbeddedKafka(settings.paths.jars, folder / "kafka")
        parts.callback(kafka.stop)
        local = Settings.load(
            kafka={"bootstrap_servers": kafka.bootstrap_servers, "options": {}},
            paths=paths,
            spark=settings.spark.model_dump(),
        )
        warn("2/3  starting Spark and the streaming query (10 to 30 s)")
        jvm_log, past_ms = folder / "spark.log", PAST_SECONDS * 1000
        service = parts.enter_context(Service(local, listeners=(printer,), jvm_log=jvm_log, stop=stop, past_ms=past_ms))
        if with_board:
            warn(f"     board: {url}")
        warn(
            f"3/3  playing scenario '{scenario}': the last {PAST_SECONDS // 60} minutes at {speed:g}x speed, then live "
            f"(startup took {time.monotonic() - began:.0f} s). Stop with Ctrl-C."
        )
        player = threading.Thread(target=_play, args=(local, scenario, speed, stop), daemon=True)
        player.start()
        service.wait(stop, seconds)
        stop.set()
        player.join(timeout=10)
    counts = ", ".join(f"{count} {key}" for key, count in sorted(printer.seen.items())) or "no alert"
    warn(f"\nstopped; alerts: {counts}.")
    tables = folder / "warehouse"
    warn(f"Query the tables: BALANCEWATCH_PATHS__WAREHOUSE={tables} balancewatch status")


@contextlib.contextmanager
def _board(settings: Settings) -> Iterator[str]:
    """Yield the board's URL while it is served. Exit with one sentence if it cannot be."""
    try:
        server = BoardServer(settings)
    except SettingsError as error:
        fail(f"{error}; or give --no-board", code=2)
    except OSError as error:
        where = f"board.host = {settings.board.host!r}"
        fail(f"{where}: cannot listen on any port: {error.strerror or error}; fix it or give --no-board")
    thread = threading.Thread(target=server.run, name="board", daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.close()
        thread.join(timeout=10)


def _play(settings: Settings, scenario: str, speed: float, stop: threading.Event) -> None:
    events = Simulation(load_scenario(scenario), 1, wall_ms() - PAST_SECONDS * 1000).events()
    try:
        with Publisher(settings.kafka) as publisher:
            play(events, publisher, speed=speed, stop=stop, never_early=True)
    except PublishError as error:
        warn(f"the simulated cluster stopped: {error}")
        stop.set()


class AlertPrinter:
    """Prints the state changes of alerts that fired, a table for each batch."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        """Number of rows by kind and state."""

    def on_batch(self, batch: WrittenBatch) -> None:
        rows = [row for row in batch.rows.get("alerts", ()) if row["fired_at"] is not None]
        self.seen.update(f"{row['kind']} {row['state']}" for row in rows)
        if rows:
            show_alerts([present_alert(row) for row in rows])


class DemoFolderError(BalancewatchError):
    """The demo may not empty the folder. The message says what to do instead."""


def check_folder(path: Path) -> None:
    """Raise DemoFolderError for a folder that is neither new, nor empty, nor marked by an earlier demo."""
    mark = path / MARK
    try:
        is_used = (path.exists() or path.is_symlink()) and any(path.iterdir())
        is_marked = mark.is_file() and not mark.is_symlink() and mark.read_bytes().startswith(_OPENING.encode())
    except OSError as error:
        raise _refusal(path, error) from None
    if is_used and not is_marked:
        raise DemoFolderError(
            f"--data-dir {path} is not empty and has no {MARK}: it may hold files that no demo created; "
            "choose another folder, or delete it yourself"
        )


@contextlib.contextmanager
def hold_folder(path: Path) -> Iterator[None]:
    """Mark the folder and hold it against other demos.

    Raises OccupiedError, or DemoFolderError if the folder cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / MARK).write_text(_WORDS)
    except OSError as error:
        raise _refusal(path, error) from None
    with occupying("demo", "demo", {"--data-dir": path}):
        yield


def empty_folder(path: Path) -> None:
    """Delete only what an earlier demo created; of a link, only the link.

    Raises DemoFolderError, or OccupiedError if a `run` or relay uses the tables.
    """
    folders = {f"--data-dir, {name}": path / name for name in TABLES}
    present = {key: folder for key, folder in folders.items() if folder.is_dir() and not folder.is_symlink()}
    with occupying(("run", "relay"), "demo", present):
        try:
            for made in (path / name for name in MADE):
                if made.is_symlink() or made.is_file():
                    made.unlink()
                elif made.exists():
                    shutil.rmtree(made)
        except OSError as error:
            raise _refusal(path, error) from None


def _refusal(path: Path, error: OSError) -> DemoFolderError:
    return DemoFolderError(f"--data-dir {path}: {error.strerror}; choose another folder")
