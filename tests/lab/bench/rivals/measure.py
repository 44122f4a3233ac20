"""The contenders one after the other: a drain of one topic of one Kafka, then live events, each with a fresh Kafka."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conf.settings import Kafka
from schemas.events import SEND_LATENCIES
from streaming.kafka_io.consumer import open_consumer, read_spans
from tests.lab.bench.apart import run_apart
from tests.lab.bench.drain import preload
from tests.lab.bench.figures import Figures, latencies_of
from tests.lab.bench.pacer import pace, publishing
from tests.lab.bench.process_tree import TreeWatch
from tests.lab.bench.rivals.agreement import compare, read_rows
from tests.lab.bench.rivals.environments import LOOP, RIVALS, NoEnvironmentError, Rival
from tests.lab.bench.rivals.work import Work, read_flips, read_report
from tests.lab.bench.scratch import Scratch, scratch
from tests.support.laboratory import say
from tests.support.session_process import SessionProcess

ROOT = Path(__file__).parents[4]
LOGS = Path(".bench/rivals")

DRAIN_COMMIT_SECONDS, LIVE_COMMIT_SECONDS = 1.0, 0.2
"""Between two Delta commits of a rival; balancewatch commits each batch."""

PATIENCE_SECONDS = 600.0
READY_SECONDS = 120.0
LAST_ROWS_SECONDS = 3.0


class ContenderError(RuntimeError):
    """A contender ended by itself, or not at all. The message names its log."""


@dataclass
class Contender:
    """`absent` is the reason why figures are missing."""

    rival: Rival
    python: Path = Path()
    absent: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


def measure_rivals(events: int, batch: int, warm_up_seconds: float, seconds: float) -> Figures:
    """Measure balancewatch first. A rival that cannot be installed, or fails, is reported as absent.

    CPU and memory are of all processes of a contender. Flips are compared with the plain loop's, column by column.
    """
    contenders = [Contender(rival) for rival in RIVALS]
    loop = next(one for one in contenders if one.rival is LOOP)
    for one in contenders:
        try:
            say(f"rivals: {one.rival.name}: its environment")
            one.python = one.rival.python()
        except NoEnvironmentError as error:
            one.absent = str(error)
    with scratch(batch) as place:
        run_apart(preload, place.kafka.bootstrap_servers, events + batch)
        tables = {}
        for one in (one for one in contenders if not one.absent):
            work = _work(place, one.rival, events + batch, batch)
            try:
                one.figures |= _drain(one, work)
                tables[one.rival.name] = work.table
            except ContenderError as error:
                one.absent = str(error)
        for one in contenders:
            if {one.rival.name, LOOP.name} <= tables.keys():
                flips = compare(read_rows(tables[one.rival.name]), read_rows(tables[LOOP.name]))
                one.figures["flips, drain"] = flips
    for one in (one for one in contenders if not one.absent):
        try:
            one.figures |= _measure_live(one, loop, warm_up_seconds, seconds)
        except ContenderError as error:
            one.absent = str(error)
    return figures_of(contenders)


def figures_of(contenders: list[Contender]) -> Figures:
    """Two rows a contender, drain and live, or why there are none."""
    found = Figures(values={one.rival.name: one.figures for one in contenders})
    for one in contenders:
        name, of = " ".join((one.rival.name, *one.rival.packages[:1])), one.figures
        if "drain, events a second" in of:
            cost = f"{of['drain, CPU seconds']:.1f} s CPU, {of['drain, MiB']:,.0f} MiB"
            flips = of.get("flips, drain", "not compared")
            found.add(f"{name}, drain", f"{of['drain, events a second']:,.0f}/s", cost, f"flips: {flips}")
        if "live, p50 ms" in of:
            latency = f"{of['live, p50 ms']:,.0f} / {of['live, p95 ms']:,.0f} ms"
            cost = f"{of['live, cores']:.2f} cores, {of['live, MiB']:,.0f} MiB"
            found.add(f"{name}, live, p50 / p95", latency, cost, f"flips: {of.get('flips, live', 'not compared')}")
        if one.absent:
            found.add(name, "not measured", "", one.absent)
    return found


def _mib(watch: TreeWatch, began: float, ended: float) -> float:
    return sum(watch.peak(began, ended).values()) / (1 << 20)


def _drain(one: Contender, work: Work) -> dict[str, float]:
    """After the warm events."""
    with _started(one, work) as process, TreeWatch(process.pid) as watch:
        try:
            code = process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise ContenderError(f"did not end in {PATIENCE_SECONDS:.0f} s; see {_log(one.rival)}") from None
        if code:
            raise ContenderError(f"ended with code {code}; see {_log(one.rival)}")
    drained = read_report(work)
    speed = drained.events / (drained.ended - drained.began)
    say(f"rivals: {one.rival.name}: {speed:,.0f} events/s")
    return {
        "drain, events a second": speed,
        "drain, CPU seconds": watch.cpu_between(drained.began, drained.ended),
        "drain, MiB": _mib(watch, 0, drained.ended),
    }


def _measure_live(one: Contender, loop: Contender, warm_up_seconds: float, seconds: float) -> dict[str, Any]:
    """Measure events at the pacer's rate, after the warm-up; then compare the flips with those of the loop."""
    with scratch(0) as place:
        settings = place.settings_for("live")
        work = _work(place, one.rival, 0, 0)
        with _started(one, work) as process, TreeWatch(process.pid) as watch:
            deadline = time.monotonic() + READY_SECONDS
            while not (work.folder / "ready").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise ContenderError(f"did not get ready; see {_log(one.rival)}")
                time.sleep(0.1)
            with publishing(pace, settings.kafka, warm_up_seconds + seconds) as pacer:
                say(f"rivals: {one.rival.name}: {warm_up_seconds:.0f} s of warm-up, then {seconds:.0f} s measured")
                began = time.time() + warm_up_seconds
                pacer.join(warm_up_seconds + seconds + 60)
            time.sleep(LAST_ROWS_SECONDS)
            if process.poll() is not None:
                raise ContenderError(f"ended by itself; see {_log(one.rival)}")
        ended = began + seconds
        ms = latencies_of(read_flips(work), int(began * 1000), int(ended * 1000))
        figures: dict[str, Any] = {
            "live, p50 ms": ms.p50,
            "live, p95 ms": ms.p95,
            "live, cores": watch.cpu_between(began, ended) / seconds,
            "live, MiB": _mib(watch, began, ended),
        }
        if not loop.absent:
            again = _work(place, LOOP, _count_sends(settings.kafka), 0, "again")
            with _started(loop, again) as process:
                if process.wait(PATIENCE_SECONDS) == 0:
                    figures["flips, live"] = compare(read_rows(work.table), read_rows(again.table))
        return figures


def _work(place: Scratch, rival: Rival, events: int, warm_events: int, label: str = "") -> Work:
    folder = place.folder / f"{rival.name.replace(' ', '-')}{label}"
    folder.mkdir()
    commit_seconds = DRAIN_COMMIT_SECONDS if events else LIVE_COMMIT_SECONDS
    return Work(place.kafka.bootstrap_servers, folder, events, warm_events, commit_seconds, group=folder.name)


@contextmanager
def _started(one: Contender, work: Work) -> Iterator[subprocess.Popen[bytes]]:
    """The contender in its own session; asked to end, and killed with its descendants if it does not."""
    command = [str(one.python), "-m", one.rival.module, work.argument()]
    session = SessionProcess(command, {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}, _log(one.rival))
    session.start()
    assert session.process
    try:
        yield session.process
        if session.is_alive():
            session.process.terminate()
            session.process.wait(60)
    except subprocess.TimeoutExpired:
        say(f"rivals: {one.rival.name} did not end when asked to")
    finally:
        if session.is_alive():
            session.signal(signal.SIGKILL)
            session.process.wait()


def _log(rival: Rival) -> Path:
    return (LOGS / f"{rival.name.replace(' ', '-')}.log").absolute()


def _count_sends(kafka: Kafka) -> int:
    with closing(open_consumer(kafka)) as consumer:
        return sum(span.end for span in read_spans(consumer, [SEND_LATENCIES]).values())
