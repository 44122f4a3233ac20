"""What a collector costs the brokers it polls: requests and seconds a round, CPU of a broker with and without it.

Real brokers, a real Kafka, `balancewatch collect` in its own process; the clients are java/WireClients.java, which
heartbeat and answer and do not pull. So a broker is nearly idle without the collector, and a hundredth of a core shows.
"""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from conf.settings import Settings
from streaming.collector.rocketmq_jvm import jvm_options
from streaming.kafka_io.topics import create_topics
from streaming.spark.jars import class_path, java
from tests.lab.bench.process_tree import cpu_of, read_tree
from tests.lab.bench.scratch import say, scratch_folder
from tests.support.java_sources import compile_sources
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


@dataclass(frozen=True)
class CollectorResult:
    """`alone` are a broker's cores without a collector."""

    groups: int
    clients: int
    queues: int
    alone: float
    bounded: "Rounds"
    unbounded: "Rounds"


@dataclass(frozen=True)
class Rounds:
    """Of some rounds the median and the most; `broker_cores` of the busiest broker, `a_second` of the busiest server.

    `unreached` members a round were not asked for want of time.
    """

    per_second: int
    rounds: int
    requests: int
    a_second: float
    seconds: float
    most_seconds: float
    unreached: int
    broker_cores: float
    collector_cores: float


def measure_collector(groups: int, clients: int, seconds: float) -> CollectorResult:
    """Each part `seconds` long, after SETTLE_ROUNDS rounds."""
    settings = Settings.load()
    jars = settings.paths.jars
    with scratch_kafka(jars) as kafka, rocketmq(jars, Clocks(1)) as cluster, _clients(cluster, groups, clients):
        create_topics(Settings.load(kafka={"bootstrap_servers": kafka.bootstrap_servers}).kafka)
        say(f"collector: {clients} clients of {groups} groups are connected to {len(cluster.brokers)} brokers")
        alone = max(_cores({name: broker.pid for name, broker in cluster.brokers.items()}, seconds).values())
        say(f"collector: a broker without one takes {alone:.3f} cores")
        found = [
            _measure(cluster, kafka.bootstrap_servers, per_second, seconds)
            for per_second in (settings.collector.requests_per_second, UNBOUNDED)
        ]
    return CollectorResult(groups, clients, len(cluster.brokers) * QUEUES, alone, *found)


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


def _measure(cluster: RocketMQ, bootstrap_servers: str, per_second: int, seconds: float) -> Rounds:
    """Measure `balancewatch collect` with this bound."""
    with scratch_folder() as folder, contextlib.ExitStack() as stack:
        path = folder / "collect.log"
        process = ServiceProcess(
            path,
            {
                "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS": bootstrap_servers,
                "BALANCEWATCH_COLLECTOR__NAME_SERVER": cluster.name_server,
                "BALANCEWATCH_COLLECTOR__REQUESTS_PER_SECOND": str(per_second),
                "BALANCEWATCH_LOG__LEVEL": "DEBUG",
                "BALANCEWATCH_LOG__FORMAT": "json",
            },
            "collect",
        )
        stack.callback(process.stop)
        process.start()
        while len(read_rounds(path)) < SETTLE_ROUNDS:
            process.check()
            time.sleep(STEP_SECONDS)
        settled = len(read_rounds(path))
        pids = {"collector": process.pid} | {name: broker.pid for name, broker in cluster.brokers.items()}
        cores = _cores(pids, seconds, lambda: len(read_rounds(path)) >= settled + LEAST_ROUNDS)
        broker_cores = max(cores[name] for name in cluster.brokers)
        found = _sum_up(per_second, read_rounds(path)[settled:], broker_cores, cores["collector"])
        say(f"collector: {found}")
        return found


def _cores(pids: Mapping[str, int], seconds: float, is_enough: Callable[[], bool] = lambda: True) -> dict[str, float]:
    """Of each process and its children by name, over the next `seconds`, and longer until `is_enough`."""
    before = {name: cpu_of(read_tree(pid)) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    while not is_enough():
        time.sleep(STEP_SECONDS)
    took = time.monotonic() - began
    return {name: (cpu_of(read_tree(pid)) - before[name]) / took for name, pid in pids.items()}


def read_rounds(log: Path) -> list[dict[str, Any]]:
    """Return the collector's log lines of its rounds."""
    lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}"))
    return [line for line in lines if line.get("event") == "round"]


def _sum_up(per_second: int, rounds: list[dict[str, Any]], broker_cores: float, collector_cores: float) -> Rounds:
    assert rounds, "no round ended"
    seconds = [line["seconds"] for line in rounds]
    return Rounds(
        per_second,
        len(rounds),
        round(median(sum(line["requests"].values()) for line in rounds)),
        max(max(line["requests"].values()) / line["seconds"] for line in rounds),
        median(seconds),
        max(seconds),
        round(median(line["unheard"] for line in rounds)),
        broker_cores,
        collector_cores,
    )


def add_collector(table: Table, result: CollectorResult) -> None:
    """Rows of the bench's table."""
    what = f"{result.groups:,} groups, {result.clients:,} clients, {result.queues} queues a topic"
    for rounds, bound in (
        (result.bounded, f"at most {result.bounded.per_second} a second"),
        (result.unbounded, "no bound"),
    ):
        table.add_row(
            f"collector, {bound}: a round",
            f"{rounds.requests:,} requests, {rounds.seconds:.1f} s",
            f"to {rounds.most_seconds:.1f} s; {rounds.a_second:.0f}/s at a broker",
            f"{what}; {rounds.unreached:,} clients not reached",
        )
        table.add_row(
            "  a broker's CPU",
            f"{rounds.broker_cores:.3f} cores",
            f"collector {rounds.collector_cores:.2f} cores",
            f"without a collector {result.alone:.3f}",
        )
