"""`balancewatch demo`: embedded Kafka, a simulated cluster, the streaming query, the board and live alerts."""

import contextlib
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from conf.settings import Settings, SettingsError
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher, PublishError
from streaming.queries.written_batch import WrittenBatch
from streaming.service.demo_folder import DemoFolder, DemoFolderError
from streaming.service.service import Service
from streaming.simulator import load_scenario, simulate
from streaming.simulator.play import play
from streaming.spark.jars import java, resolve_jars, spark_jars
from streaming.terminal.command import fail
from streaming.terminal.printing import STATE_STYLES
from streaming.text.console import VisibleConsole
from streaming.text.output import warn
from streaming.text.times import to_time, wall_ms
from streaming.warehouse.occupancy import occupying, work_folders

PAST_SECONDS = 900
"""Length of the simulated past, which is played `speed` times as fast; afterwards the simulation is live."""


class AlertPrinter:
    """Prints each state change of an alert that fired: time, summary and fix. Colours only on a terminal."""

    def __init__(self) -> None:
        self._console = VisibleConsole(soft_wrap=True)
        self._lock = threading.Lock()
        self.seen: dict[str, int] = {}

    def on_batch(self, batch: WrittenBatch) -> None:
        with self._lock:
            for row in batch.rows.get("alerts", ()):
                if row["fired_at"] is None:
                    continue
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


def run_demo(
    settings: Settings,
    stop: threading.Event,
    *,
    folder: DemoFolder,
    scenario: str,
    speed: float,
    seconds: float | None,
    with_board: bool = True,
) -> None:
    """Run until `stop` is set or `seconds` after the query started. It overwrites an earlier demo in `folder`.

    Before it deletes or starts anything, it checks that no other demo and no `run` uses the folder, that Java and the
    jars are there, and that the board can listen on a free loopback port (without a token unless the environment has
    one). Raises JarsError, OccupiedError.
    """
    with _in_a_sentence(), folder, contextlib.ExitStack() as parts:
        began = time.monotonic()
        java()
        resolve_jars("kafka", settings.paths.jars)
        spark_jars(settings.paths.jars)
        data_dir = folder.path
        paths = {
            "warehouse": data_dir / "warehouse",
            "checkpoints": data_dir / "checkpoints",
            "jars": settings.paths.jars,
        }
        printer = AlertPrinter()
        board = {"host": "127.0.0.1", "port": 0}
        url = parts.enter_context(_board(Settings.load(paths=paths, board=board))) if with_board else ""
        folder.empty()
        parts.enter_context(occupying("run", "demo", work_folders(Settings.load(paths=paths))))
        warn(f"1/3  starting an embedded Kafka (data in {data_dir})")
        kafka = EmbeddedKafka(settings.paths.jars, data_dir / "kafka")
        parts.callback(kafka.stop)
        local = Settings.load(
            kafka={"bootstrap_servers": kafka.bootstrap_servers, "options": {}},
            paths=paths,
            spark=settings.spark.model_dump(),
        )
        warn("2/3  starting Spark and the streaming query (10 to 30 s)")
        service = parts.enter_context(
            Service(
                local,
                listeners=(printer,),
                jvm_log=data_dir / "spark.log",
                stop=stop,
                past_ms=PAST_SECONDS * 1000,
            )
        )
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
    warn(f"Query the tables: BALANCEWATCH_PATHS__WAREHOUSE={data_dir / 'warehouse'} balancewatch alerts --current")


@contextlib.contextmanager
def _in_a_sentence() -> Iterator[None]:
    """Exit with one sentence if the folder cannot be created or emptied."""
    try:
        yield
    except DemoFolderError as error:
        fail(str(error))


@contextlib.contextmanager
def _board(settings: Settings) -> Iterator[str]:
    """Yield the board's URL while it is served. Exit with one sentence if it cannot be."""
    try:
        from streaming.board.web.server import BoardServer  # noqa: PLC0415  # imported only where pages are served

        server = BoardServer(settings)
    except SettingsError as error:
        fail(f"{error}; or give --no-board", code=2)
    except ImportError as error:
        fail(f"the board needs {error.name}, which cannot be imported ({error}); install it, or give --no-board")
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
    start_ms = wall_ms() - PAST_SECONDS * 1000
    try:
        with Publisher(settings.kafka) as publisher:
            play(_events(scenario, start_ms), publisher, speed=speed, stop=stop, never_early=True)
    except PublishError as error:
        warn(f"the simulated cluster stopped: {error}")
        stop.set()


def _events(scenario: str, start_ms: int) -> Iterator[tuple[str, dict[str, Any]]]:
    return simulate(load_scenario(scenario), 1, start_ms)
