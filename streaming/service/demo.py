"""`balancewatch demo`: embedded Kafka, a simulated cluster, the streaming query, the board and live alerts."""

import contextlib
import shutil
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from rich.text import Text

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
from streaming.system.known_error import BalancewatchError
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail, load, run_or_exit
from streaming.terminal.printing import STATE_STYLES
from streaming.text.console import VisibleConsole
from streaming.text.output import warn
from streaming.text.times import to_time, wall_ms
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
        folder = DemoFolder(data_dir)
    except (ScenarioError, DemoFolderError) as error:
        fail(str(error), code=2)
    run_or_exit(_run, settings, stop, folder, scenario, speed, seconds, with_board=with_board, ending=stop)


def _run(
    settings: Settings,
    stop: threading.Event,
    folder: "DemoFolder",
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
    with folder, contextlib.ExitStack() as parts:
        began = time.monotonic()
        java()
        resolve_jars("kafka", settings.paths.jars)
        spark_jars(settings.paths.jars)
        paths = {name: folder.path / name for name in TABLES} | {"jars": settings.paths.jars}
        board = {"host": "127.0.0.1", "port": 0}
        url = parts.enter_context(_board(Settings.load(paths=paths, board=board))) if with_board else ""
        folder.empty()
        parts.enter_context(occupying("run", "demo", work_folders(Settings.load(paths=paths))))
        warn(f"1/3  starting an embedded Kafka (data in {folder.path})")
        kafka = EmbeddedKafka(settings.paths.jars, folder.path / "kafka")
        parts.callback(kafka.stop)
        local = Settings.load(
            kafka={"bootstrap_servers": kafka.bootstrap_servers, "options": {}},
            paths=paths,
            spark=settings.spark.model_dump(),
        )
        warn("2/3  starting Spark and the streaming query (10 to 30 s)")
        jvm_log, past_ms = folder.path / "spark.log", PAST_SECONDS * 1000
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
    tables = folder.path / "warehouse"
    warn(f"Query the tables: BALANCEWATCH_PATHS__WAREHOUSE={tables} balancewatch alerts --current")


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
    """Prints each state change of an alert that fired: time, summary and fix. Colours only on a terminal."""

    def __init__(self) -> None:
        self._console = VisibleConsole(soft_wrap=True)
        self.seen: dict[str, int] = {}
        """Number of rows by kind and state."""

    def on_batch(self, batch: WrittenBatch) -> None:
        for row in batch.rows.get("alerts", ()):
            if row["fired_at"] is not None:
                self._print(row)
                key = f"{row['kind']} {row['state']}"
                self.seen[key] = self.seen.get(key, 0) + 1

    def _print(self, row: dict[str, Any]) -> None:
        at = f"{to_time(row['changed_at']):%H:%M:%S}"
        head = Text.assemble(
            f"\n{at} UTC  ", (row["state"], STATE_STYLES.get(row["state"], "")), f"  {row['kind']}  {row['severity']}"
        )
        if row["inhibited_by"]:
            head.append(f"  (caused by {row['inhibited_by']})", style="dim")
        self._console.print(head)
        if row["state"] == "RECOVERING":
            return
        width = min(self._console.width, 110) if self._console.is_terminal else 110
        for text in (row["summary"], *([f"Fix: {row['advice']}"] if row["state"] == "FIRING" else [])):
            self._console.print(Text(textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ")))


class DemoFolderError(BalancewatchError):
    """The demo may not empty the folder. The message says what to do instead."""


class DemoFolder:
    """A demo's folder: new, empty, or marked by an earlier demo. As a context manager it holds it exclusively.

    A demo deletes only what an earlier demo created in it.
    """

    def __init__(self, path: Path) -> None:
        """Change nothing. Raises DemoFolderError for a non-empty folder without a demo's mark."""
        self.path = path
        self._held = contextlib.ExitStack()
        try:
            is_used = (path.exists() or path.is_symlink()) and any(path.iterdir())
        except OSError as error:
            raise self._refused(error) from None
        if is_used and not self._is_marked():
            raise DemoFolderError(
                f"--data-dir {path} is not empty and has no {MARK}: it may hold files that no demo created; "
                "choose another folder, or delete it yourself"
            )

    def _is_marked(self) -> bool:
        mark = self.path / MARK
        try:
            return mark.is_file() and not mark.is_symlink() and mark.read_text().startswith(_OPENING)
        except (OSError, UnicodeDecodeError):
            return False

    def __enter__(self) -> Self:
        """Mark the folder and hold it against other demos.

        Raises OccupiedError, or DemoFolderError if the folder cannot be created.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / MARK).write_text(_WORDS)
        except OSError as error:
            raise self._refused(error) from None
        self._held.enter_context(occupying("demo", "demo", {"--data-dir": self.path}))
        return self

    def empty(self) -> None:
        """Delete the files of an earlier demo; of a link, only the link.

        Raises DemoFolderError, or OccupiedError if a `run` or relay uses the tables.
        """
        folders = {f"--data-dir, {name}": self.path / name for name in TABLES}
        present = {key: folder for key, folder in folders.items() if folder.is_dir() and not folder.is_symlink()}
        with occupying(("run", "relay"), "demo", present):
            try:
                for path in (self.path / name for name in MADE):
                    if path.is_symlink() or path.is_file():
                        path.unlink()
                    elif path.exists():
                        shutil.rmtree(path)
            except OSError as error:
                raise self._refused(error) from None

    def _refused(self, error: OSError) -> DemoFolderError:
        return DemoFolderError(f"--data-dir {self.path}: {error.strerror}; choose another folder")

    def __exit__(self, *_: object) -> None:
        self._held.close()
