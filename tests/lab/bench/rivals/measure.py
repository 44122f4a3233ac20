"""The contenders one after the other: a drain of one topic of one Kafka, then live events, each with a fresh Kafka."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition
from rich.table import Table

from schemas.events import SEND_LATENCIES
from streaming.kafka_io.topics import create_topics
from tests.lab.bench.apart import run_apart
from tests.lab.bench.drain import preload
from tests.lab.bench.figures import Percentiles, latencies_of
from tests.lab.bench.pacer import pace, publishing
from tests.lab.bench.process_tree import Memory, TreeWatch
from tests.lab.bench.rivals.agreement import Agreement, compare, read_rows
from tests.lab.bench.rivals.environments import LOOP, RIVALS, NoEnvironmentError, Rival
from tests.lab.bench.rivals.work import Work, read_flips, read_report
from tests.lab.bench.scratch import Scratch, say, scratch

ROOT = Path(__file__).parents[4]
LOGS = Path(".bench/rivals")

DRAIN_COMMIT_SECONDS, LIVE_COMMIT_SECONDS = 1.0, 0.2
"""Between two Delta commits of a rival; balancewatch commits each batch."""

PATIENCE_SECONDS = 600.0
READY_SECONDS = 120.0
LAST_ROWS_SECONDS = 3.0


class ContenderError(RuntimeError):
    """A contender ended by itself, or not at all. The message names its log."""


@dataclass(frozen=True)
class Drain:
    """After the warm events, which are `batch` of them."""

    events_per_second: float
    cpu_seconds: float
    memory: Memory
    flips: Agreement | None


@dataclass(frozen=True)
class Live:
    """From a slow send to the commit of its row, ms; `cores` are CPU seconds a second."""

    flips_ms: Percentiles
    cores: float
    memory: Memory
    flips: Agreement | None


@dataclass(frozen=True)
class Contender:
    """`absent` is the reason why figures are missing."""

    name: str
    packages: tuple[str, ...]
    drain: Drain | None = None
    live: Live | None = None
    absent: str = ""


@dataclass(frozen=True)
class RivalsResult:
    events: int
    batch: int
    warm_up_seconds: float
    contenders: list[Contender]


def measure_rivals(events: int, batch: int, warm_up_seconds: float, seconds: float) -> RivalsResult:
    """Measure balancewatch first. A rival that cannot be installed, or fails, is reported as absent."""
    contenders = {rival.name: Contender(rival.name, rival.packages) for rival in RIVALS}
    pythons: dict[str, Path] = {}
    for rival in RIVALS:
        try:
            say(f"rivals: {rival.name}: its environment")
            pythons[rival.name] = rival.python()
        except NoEnvironmentError as error:
            contenders[rival.name] = replace(contenders[rival.name], absent=str(error))
            say(f"rivals: {rival.name} is left out: {error}")
    present = [rival for rival in RIVALS if rival.name in pythons]
    with scratch(batch) as place:
        run_apart(preload, place.kafka.bootstrap_servers, events + batch)
        tables: dict[str, Path] = {}
        for rival in present:
            work = _work(place, rival, events + batch, batch)
            try:
                drain = _drain(rival, pythons[rival.name], work)
            except ContenderError as error:
                contenders[rival.name] = replace(contenders[rival.name], absent=str(error))
                continue
            contenders[rival.name] = replace(contenders[rival.name], drain=drain)
            tables[rival.name] = work.table
            say(f"rivals: {rival.name}: {drain.events_per_second:,.0f} events/s")
        if LOOP.name in tables:
            of_loop = read_rows(tables[LOOP.name])
            for name, table in tables.items():
                if drained := contenders[name].drain:
                    agreement = compare(read_rows(table), of_loop)
                    contenders[name] = replace(contenders[name], drain=replace(drained, flips=agreement))
    for rival in present:
        if contenders[rival.name].absent:
            continue
        try:
            live = _measure_live(rival, pythons, warm_up_seconds, seconds)
            contenders[rival.name] = replace(contenders[rival.name], live=live)
        except ContenderError as error:
            contenders[rival.name] = replace(contenders[rival.name], absent=str(error))
    return RivalsResult(events, batch, warm_up_seconds, list(contenders.values()))


def _drain(rival: Rival, python: Path, work: Work) -> Drain:
    with _started(rival, python, work) as process, TreeWatch(process.pid) as watch:
        try:
            code = process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise ContenderError(f"{rival.name} did not end in {PATIENCE_SECONDS:.0f} s; see {_log(rival)}") from None
        if code:
            raise ContenderError(f"{rival.name} ended with code {code}; see {_log(rival)}")
    drained = read_report(work)
    return Drain(
        drained.events / (drained.ended - drained.began),
        watch.cpu_between(drained.began, drained.ended),
        watch.peak_between(0, drained.ended),
        None,
    )


def _measure_live(rival: Rival, pythons: dict[str, Path], warm_up_seconds: float, seconds: float) -> Live:
    """Measure events at the pacer's rate, after the warm-up; then compare the flips with those of the loop."""
    with scratch(0) as place:
        settings = place.settings_for("live")
        create_topics(settings.kafka)
        work = _work(place, rival, 0, 0)
        with _started(rival, pythons[rival.name], work) as process, TreeWatch(process.pid) as watch:
            deadline = time.monotonic() + READY_SECONDS
            while not (work.folder / "ready").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise ContenderError(f"{rival.name} did not get ready; see {_log(rival)}")
                time.sleep(0.1)
            with publishing(pace, settings.kafka, warm_up_seconds + seconds) as pacer:
                say(f"rivals: {rival.name}: warming up for {warm_up_seconds:.0f} s, then measuring for {seconds:.0f} s")
                began = time.time() + warm_up_seconds
                pacer.join(warm_up_seconds + seconds + 60)
            time.sleep(LAST_ROWS_SECONDS)
            if process.poll() is not None:
                raise ContenderError(f"{rival.name} ended by itself; see {_log(rival)}")
        ended = began + seconds
        flips_ms = latencies_of(read_flips(work), int(began * 1000), int(ended * 1000))
        say(f"rivals: {rival.name}: p50 {flips_ms.p50:,.0f} ms, p95 {flips_ms.p95:,.0f} ms")
        agreement = None
        if LOOP.name in pythons:
            again = _work(place, LOOP, _count_sends(settings.kafka.bootstrap_servers), 0, "again")
            with _started(LOOP, pythons[LOOP.name], again) as process:
                if process.wait(PATIENCE_SECONDS) == 0:
                    agreement = compare(read_rows(work.table), read_rows(again.table))
        return Live(flips_ms, watch.cpu_between(began, ended) / seconds, watch.peak_between(began, ended), agreement)


def _work(place: Scratch, rival: Rival, events: int, warm_events: int, label: str = "") -> Work:
    folder = place.folder / f"{rival.name.replace(' ', '-')}{label}"
    folder.mkdir()
    commit_seconds = DRAIN_COMMIT_SECONDS if events else LIVE_COMMIT_SECONDS
    return Work(place.kafka.bootstrap_servers, folder, events, warm_events, commit_seconds, group=folder.name)


@contextmanager
def _started(rival: Rival, python: Path, work: Work) -> Iterator[subprocess.Popen[bytes]]:
    """The contender in its own session; asked to end, and killed with its descendants if it does not."""
    _log(rival).parent.mkdir(parents=True, exist_ok=True)
    with _log(rival).open("ab") as log:
        process = subprocess.Popen(
            [str(python), "-m", rival.module, *work.arguments()],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
        if process.poll() is None:
            process.terminate()
            process.wait(60)
    except subprocess.TimeoutExpired:
        say(f"rivals: {rival.name} did not end when asked to")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _log(rival: Rival) -> Path:
    return (LOGS / f"{rival.name.replace(' ', '-')}.log").absolute()


def _count_sends(bootstrap_servers: str) -> int:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers.split(","))
    try:
        parts = [TopicPartition(SEND_LATENCIES, number) for number in consumer.partitions_for_topic(SEND_LATENCIES)]
        return int(sum(consumer.end_offsets(parts).values()))
    finally:
        consumer.close()


def comparison_table(result: RivalsResult) -> Table:
    """A row a contender. CPU and memory are of all its processes."""
    title = (
        f"the same work by others: {result.events:,} send latencies drained after {result.batch:,} of warm-up; "
        f"1,000 events/s live after {result.warm_up_seconds:.0f} s"
    )
    table = Table("", "drain", "CPU", "memory", "live p50 / p95", "cores", "memory", "flips", title=title)
    for contender in result.contenders:
        cells = ["-"] * 6
        if drain := contender.drain:
            rate = f"{drain.events_per_second:,.0f}/s"
            cells[:3] = rate, f"{drain.cpu_seconds:.1f} s", f"{drain.memory.peak_mib:,} MiB"
        if live := contender.live:
            latency = f"{live.flips_ms.p50:,.0f} / {live.flips_ms.p95:,.0f} ms"
            cells[3:] = latency, f"{live.cores:.2f}", f"{live.memory.peak_mib:,} MiB"
        loads = [load.flips for load in (drain, live) if load is not None]
        flips = "; ".join(f"{one.rows:,} {one.text}" if one is not None else "not compared" for one in loads)
        table.add_row(contender.name, *cells, flips or "-")
    return table


def notes(result: RivalsResult) -> list[str]:
    """What the figures of the table mean, and why some are missing."""
    packages = {one.name: one.packages[0] for one in result.contenders if one.packages}
    texts = [
        f"Versions: {', '.join(packages.values())}. One process each; balancewatch uses both cores. Rivals decode by "
        "msgspec, check nothing; they commit to Delta each second in the drain, each 0.2 s live; bytewax then at once.",
        "Flips: drain; live. Rows beside the plain loop's, column by column.",
    ]
    return texts + [f"{one.name}: not measured: {one.absent}" for one in result.contenders if one.absent]
