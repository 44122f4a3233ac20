"""What a cluster of 100 groups takes: bytes in Kafka and tables, cores and memory of `run`, quiet and rolled out."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen

from conf.settings import Settings
from tests.lab.bench.figures import Figures, parts_of
from tests.lab.bench.process_tree import Process, cores_by_name, read_tree, resident_by_name
from tests.lab.bench.scratch import Scratch, live_run, scratch
from tests.support.laboratory import say

CLIENTS, QUEUES, BROKERS = 3, 8, 2
"""Of each group; queues of its topic, over both brokers."""

AWAY_SECONDS = 15.0
DAY = 86_400


def scenario_of(groups: int, settle_seconds: float, seconds: float) -> str:
    """Return a cluster in TOML. In the second half of the time one client of each group restarts."""
    names = ", ".join(f'"broker-{number}"' for number in range(BROKERS))
    parts = [f'description = "sizing"\ncluster = "sizing"\nbrokers = [{names}]\n']
    for number in range(groups):
        clients = "".join(
            f'  {{ name = "g{number}-{client}", client_id = "10.20.{number}.{client}@4711#81203344120019", '
            f'host = "10.20.{number}.{client}" }},\n'
            for client in range(CLIENTS)
        )
        at = settle_seconds + seconds + number * (seconds - 2 * AWAY_SECONDS) / groups
        parts += [
            f'[[topics]]\ntopic = "topic-{number}"\nqueue_nums = {QUEUES // BROKERS}\n',
            f'[[groups]]\nconsumer_group = "group-{number}"\nsubscriptions = ["topic-{number}"]\n'
            f"consumers = [\n{clients}]\n",
            f'[[happenings]]\nat = {at:.0f}\naction = "stop"\nconsumer = "g{number}-0"\n',
            f'[[happenings]]\nat = {at + AWAY_SECONDS:.0f}\naction = "start"\nconsumer = "g{number}-0"\n',
        ]
    return "\n".join(parts)


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def bytes_below(folder: Path, pattern: str = "*") -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{pattern}/**/*") if path.is_file())


def measure_sizing(groups: int, settle_seconds: float, seconds: float) -> Figures:
    """`run` in real time beside a simulated cluster, polled every 10 s: `seconds` quiet, then as long rolled out."""
    with scratch(0) as place:
        file = place.folder / "sizing.toml"
        file.write_text(scenario_of(groups, settle_seconds, seconds))
        settings = place.settings_for("sizing")
        duration = f"{settle_seconds + 2 * seconds + 60:.0f}"
        command = [
            sys.executable,
            "-m",
            "streaming.cli",
            "simulate",
            str(file),
            "--view",
            "collector",
            "--interval",
            "10",
        ]
        command += ["--speed", "1", "--seconds", duration, "--bootstrap-servers", settings.kafka.bootstrap_servers]
        with live_run(settings) as run, Popen([*command, "--start", utc_now()]) as simulated:
            try:
                run.sleep(settle_seconds)
                states = [read_state(place, settings, run.pid)]
                for span in ("quiet", "rolled out"):
                    say(f"sizing: {groups} groups, {span}, {seconds:.0f} s")
                    run.sleep(seconds)
                    states.append(read_state(place, settings, run.pid))
            finally:
                simulated.terminate()
    return figures_of(groups, states)


def read_state(place: Scratch, settings: Settings, pid: int) -> tuple[float, int, int, list[Process]]:
    """Return the time, the bytes of Kafka's topics and of the tables, and the processes of `run`."""
    warehouse = Path(settings.paths.warehouse)
    kafka = bytes_below(place.kafka.data_dir / "log", "rocketmq.*") + bytes_below(
        place.kafka.data_dir / "log", "balancewatch.*"
    )
    return time.monotonic(), kafka, bytes_below(warehouse), read_tree(pid)


def figures_of(groups: int, states: list[tuple[float, int, int, list[Process]]]) -> Figures:
    figures = Figures(values={})
    for name, before, after in (("quiet", states[0], states[1]), ("rolled out", states[1], states[2])):
        seconds = after[0] - before[0]
        cores = cores_by_name(before[3], after[3], seconds)
        kafka, tables = after[1] - before[1], after[2] - before[2]
        figures.values[name] = {"seconds": seconds, "kafka": kafka, "tables": tables, "cores": cores}
        figures.add(f"{groups} groups {name}, Kafka", f"{kafka * DAY / seconds / 1e6:,.0f} MB a day")
        figures.add(f"{groups} groups {name}, tables", f"{tables / 1e6:.2f} MB", "", f"in {seconds:.0f} s")
        figures.add(f"{groups} groups {name}, CPU", f"{sum(cores.values()):.2f} cores", "", parts_of(cores, 2))
        figures.add_memory(f"{groups} groups {name}", resident_by_name(after[3]), "at the end")
    return figures
