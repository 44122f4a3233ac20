"""`balancewatch demo`: embedded Kafka, a modelled cluster, the stream, the board, and each alert as it comes."""

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
"""The modelled cluster starts this long ago, plays `speed` times as fast until it is now, then is live."""


class AlertPrinter:
    """Prints each step of an alert that fired: when, what, and the one line that fixes it.

    Colours only on a terminal; the text only where it is news.
    """

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
            head.append(f"  (explained by {row['inhibited_by']})", style="dim")
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
    """Run until `stop` is set or `seconds` after the query started. What an earlier demo left in `folder` is deleted
    first, and what this one makes is left behind.

    Another demo that uses the folder, or a `run`, ends this one before anything else. Java and the jars are looked for,
    and the board listens (at a free port of the loopback, so it asks for no token unless the environment has one),
    before anything is deleted or started: what they refuse ends the demo at once. Raises JarsError, OccupiedError.
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
        warn(f"1/3  starting the embedded Kafka (data in {data_dir})")
        kafka = EmbeddedKafka(settings.paths.jars, data_dir / "kafka")
        parts.callback(kafka.stop)
        local = Settings.load(
            kafka={"bootstrap_servers": kafka.bootstrap_servers, "options": {}},
            paths=paths,
            spark=settings.spark.model_dump(),
        )
        warn("2/3  starting Spark and the streaming query (10 to 30 s)")
        service = parts.enter_context(Service(local, listeners=(printer,), jvm_log=data_dir / "spark.log", stop=stop))
        if with_board:
            warn(f"     the board is at {url}")
        warn(
            f"3/3  playing the scenario '{scenario}': {PAST_SECONDS // 60} minutes ago until now at {speed:g}x, "
            f"then live; set-up took {time.monotonic() - began:.0f} s. Ctrl-C ends."
        )
        player = threading.Thread(target=_play, args=(local, scenario, speed, stop), daemon=True)
        player.start()
        service.wait(stop, seconds)
        stop.set()
        player.join(timeout=10)
    counts = ", ".join(f"{count} {key}" for key, count in sorted(printer.seen.items())) or "no alert"
    warn(f"\nended cleanly: {counts}.")
    warn(f"Ask again: BALANCEWATCH_PATHS__WAREHOUSE={data_dir / 'warehouse'} balancewatch alerts --current")


@contextlib.contextmanager
def _in_a_sentence() -> Iterator[None]:
    """Leaves with one where the folder cannot be made or emptied."""
    try:
        yield
    except DemoFolderError as error:
        fail(str(error))


@contextlib.contextmanager
def _board(settings: Settings) -> Iterator[str]:
    """The board's URL, while it is served. Leaves with a sentence where it cannot be."""
    try:
        from streaming.board.web.server import BoardServer  # noqa: PLC0415  # Dash is imported only where pages are served

        server = BoardServer(settings)
    except SettingsError as error:
        fail(f"{error}; or give --no-board", code=2)
    except ImportError as error:
        fail(f"the board needs {error.name}, which cannot be imported ({error}); install it, or give --no-board")
    except OSError as error:
        where = f"board.host = {settings.board.host!r}"
        fail(f"{where}: no port of it can be listened at: {error.strerror or error}; --no-board goes without")
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
        warn(f"the modelled cluster stopped: {error}")
        stop.set()


def _events(scenario: str, start_ms: int) -> Iterator[tuple[str, dict[str, Any]]]:
    return simulate(load_scenario(scenario), 1, start_ms)
