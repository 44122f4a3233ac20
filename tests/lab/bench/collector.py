"""What a collector costs the brokers it polls: requests and seconds a round, CPU of a broker with and without it.

Real brokers, a real Kafka, `balancewatch collect` in its own process; the clients are java/WireClients.java, which
heartbeat and answer and do not pull. So a broker is nearly idle without the collector, and a hundredth of a core shows.
"""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from conf.settings import Settings
from streaming.collector.rocketmq_jvm import jvm_options
from streaming.kafka_io.topics import create_topics
from streaming.spark.jars import class_path, java
from tests.lab.bench.figures import Figures
from tests.lab.bench.process_tree import cpu_of, read_tree
from tests.lab.bench.scratch import scratch_folder
from tests.support.java_sources import compile_sources
from tests.support.laboratory import say
from tests.support.rocketmq import RocketMQ, rocketmq
from tests.support.rocketmq_clocks import Clocks
from tests.support.scratch_kafka import scratch_kafka
from tests.support.service_process import ServiceProcess

SOURCE = Path(__file__).parent / "java" / "WireClients.java"
GROUPS_OF_A_TOPIC = 10
QUEUES = 8
UNBOUNDED = 1_000_000
SETTLE_ROUNDS = 2
LEAST_ROUNDS = 3
STEP_SECONDS = 1.0


def measure_collector(groups: int, clients: int, seconds: float) -> Figures:
    """Each part `seconds` long, after SETTLE_ROUNDS rounds."""
    settings = Settings.load()
    jars = settings.paths.jars
    figures = Figures()
    with scratch_kafka(jars) as kafka, rocketmq(jars, Clocks(1)) as cluster, _clients(cluster, groups, clients):
        create_topics(Settings.load(kafka={"bootstrap_servers": kafka.bootstrap_servers}).kafka)
        say(f"collector: {clients} clients of {groups} groups are connected to {len(cluster.brokers)} brokers")
        alone = max(_cores({name: broker.pid for name, broker in cluster.brokers.items()}, seconds).values())
        what = f"{groups:,} groups, {clients:,} clients, {len(cluster.brokers) * QUEUES} queues a topic"
        figures.add("collector, none: a broker's CPU", f"{alone:.3f} cores", "", what)
        for per_second in (settings.collector.requests_per_second, UNBOUNDED):
            name = "collector, no bound" if per_second == UNBOUNDED else f"collector, at most {per_second} a second"
            _measure(figures, name, cluster, kafka.bootstrap_servers, per_second, seconds)
    return figures


@contextlib.contextmanager
def _clients(cluster: RocketMQ, groups: int, clients: int) -> Iterator[None]:
    """Connected, each known to every broker."""
    addresses = [broker.address for broker in cluster.brokers.values()]
    for number in range(-(-groups // GROUPS_OF_A_TOPIC)):
        cluster.operator.put_topic(addresses, f"topic_{number}", QUEUES, QUEUES)
    with scratch_folder() as folder:
        compile_sources([SOURCE], class_path("rocketmq", cluster.jars), folder)
        brokers = [f"{name}={broker.address}" for name, broker in cluster.brokers.items()]
        command = [java(), *jvm_options(cluster.jars, folder, "512m"), "WireClients"]
        sizes = [str(groups), str(clients), str(QUEUES)]
        with subprocess.Popen(
            [*command, *sizes, *brokers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdin
            assert process.stdout
            try:
                assert b"READY\n" in process.stdout, "the clients ended"
                yield
            finally:
                process.stdin.close()
                process.kill()


def _measure(
    figures: Figures, name: str, cluster: RocketMQ, bootstrap_servers: str, per_second: int, seconds: float
) -> None:
    """Measure `balancewatch collect` with this bound: the median of its rounds, CPU of the busiest broker."""
    environment = {
        "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS": bootstrap_servers,
        "BALANCEWATCH_COLLECTOR__NAME_SERVER": cluster.name_server,
        "BALANCEWATCH_COLLECTOR__REQUESTS_PER_SECOND": str(per_second),
        "BALANCEWATCH_LOG__LEVEL": "DEBUG",
        "BALANCEWATCH_LOG__FORMAT": "json",
    }
    with scratch_folder() as folder, contextlib.ExitStack() as stack:
        path = folder / "collect.log"
        process = ServiceProcess(path, environment, "collect")
        stack.callback(process.stop)
        process.start()
        while len(_rounds(path)) < SETTLE_ROUNDS:
            process.sleep(STEP_SECONDS)
        settled = len(_rounds(path))
        pids = {"collector": process.pid} | {name: broker.pid for name, broker in cluster.brokers.items()}
        cores = _cores(pids, seconds, lambda: len(_rounds(path)) >= settled + LEAST_ROUNDS)
        rounds = _rounds(path)[settled:]
    took = [line["seconds"] for line in rounds]
    requests = round(median(sum(line["requests"].values()) for line in rounds))
    a_second = max(max(line["requests"].values()) / line["seconds"] for line in rounds)
    missed = round(median(line["unheard"] for line in rounds))
    broker_cores = max(cores[broker] for broker in cluster.brokers)
    figures.values[name] = {"rounds": rounds, "cores": cores}
    spread = f"to {max(took):.1f} s; {a_second:.0f}/s at a broker"
    figures.add(
        f"{name}: a round", f"{requests:,} requests, {median(took):.1f} s", spread, f"{missed:,} clients not reached"
    )
    figures.add("  a broker's CPU", f"{broker_cores:.3f} cores", f"collector {cores['collector']:.2f} cores")


def _cores(pids: Mapping[str, int], seconds: float, is_enough: Callable[[], bool] = lambda: True) -> dict[str, float]:
    """Of each process and its children by name, over the next `seconds`, and longer until `is_enough`."""
    before = {name: cpu_of(read_tree(pid)) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    while not is_enough():
        time.sleep(STEP_SECONDS)
    took = time.monotonic() - began
    return {name: (cpu_of(read_tree(pid)) - before[name]) / took for name, pid in pids.items()}


def _rounds(log: Path) -> list[dict[str, Any]]:
    """Return the collector's log lines of its rounds."""
    lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}"))
    return [line for line in lines if line.get("event") == "round"]
