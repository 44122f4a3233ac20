"""`python -m tests.support.release`: write the golden archive of this release, tests/golden/release-VERSION.tar.gz.

events.jsonl     a log: half a minute of it is notified, the next part is not, and the rest is not yet read
warehouse/       every table, after two runs over the log
checkpoints/     Spark's checkpoint of these runs
states.msgpack   by scenario, the state of the stateful operator in the middle of it, and the version
"""

import json
import tarfile
import tempfile
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from conf.settings import Settings
from schemas.events import PULLS
from schemas.tables import QUALITY, REPAIRS
from streaming.cli import app
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.queries.state import ShardIndex
from streaming.queries.store import DictShardStore
from streaming.service.service import Service
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from streaming.spark.session import start_spark
from streaming.text.output import say
from tests.conftest import settings_for
from tests.maintenance.rows import row_of, write
from tests.relay.fakes import FakeServer
from tests.support.engine import Stream
from tests.support.scratch_kafka import scratch_kafka
from tests.support.twins_log import START_MS, Log, publish, story_in, twins_log

GOLDEN = Path(__file__).parents[1] / "golden"
NOTIFIED_MS, READ_MS = START_MS + 80_000, START_MS + 190_000
"""Event times until which the log is notified, and read: five queues starve, then a broker's incident fires."""

STATES = (
    ("offset_regression", 180),
    ("stopped_process", 180),
    ("demo", 480),
    ("heartbeat_v2", 60),
    ("grpc_offline", 360),
    ("tags_differ", 120),
    ("agents_removed", 60),
    ("split_view", 540),
    ("offset_regression", 360),
    ("collector_renamed", 360),
    ("twin_processes", 360),
    ("order_lock_newcomer", 540),
)
"""Scenarios and seconds whose states have 95 % of the fields that any scenario's state has."""


def run_over(settings: Settings, spark: SparkSession, *, notifies: bool = False) -> None:
    """Process all messages in Kafka, and start from the checkpoint if there is one."""
    with Service(settings, available_now=True, notifies=notifies, spark=spark) as service:
        service.wait(threading.Event())


def publish_log(settings: Settings, log: Log) -> None:
    """Publish a message that is no event, then the log."""
    with Publisher(settings.kafka) as publisher:
        publisher.publish_raw(PULLS, b"sample", b"no JSON")
        publisher.flush()
    publish(settings, log)


def settings_of_release(kafka: EmbeddedKafka, root: Path, **sections: dict[str, Any]) -> Settings:
    """Settings for the golden tables and checkpoint: a batch has at most 500 messages."""
    return settings_for(kafka, root, queries={"max_offsets_per_trigger": 500}, quality={"every_batches": 0}, **sections)


def write_release(root: Path, kafka: EmbeddedKafka, spark: SparkSession) -> None:
    log = twins_log()
    root.joinpath("events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in log))
    with FakeServer() as hook:
        receivers = {
            "receivers": [{"name": "hook", "type": "webhook", "url": hook.url}],
            "routes": [{"name": "all", "receivers": ["hook"]}],
        }
        settings = settings_of_release(kafka, root, oncall=receivers)
        publish_log(settings, part(log, 0, NOTIFIED_MS))
        run_over(settings, spark, notifies=True)
    publish(settings, part(log, NOTIFIED_MS, READ_MS))
    run_over(settings, spark)
    warehouse = root / "warehouse"
    for command in (
        ["silence", "add", "--match", "cluster=staging-*", "--for", "1h", "--owner", "ada", "--reason", "release 4.2"],
        ["ack", next(iter(story_in(settings))), "--owner", "ada", "--note", "restarting the twin"],
    ):
        ended = CliRunner().invoke(app, [*command, "--warehouse", str(warehouse)])
        assert ended.exit_code == 0, ended.output
    for table in (QUALITY, REPAIRS):
        write(warehouse, table, [row_of(table, READ_MS)])
    states = {f"{scenario} {second}": state_of(scenario, second) for scenario, second in STATES}
    root.joinpath("states.msgpack").write_bytes(msgspec.msgpack.encode((ShardIndex().version, states)))


def part(log: Log, since_ms: int, until_ms: int) -> Log:
    return [event for event in log if since_ms <= event[1]["event_time_ms"] < until_ms]


def state_of(scenario: str, second: int) -> tuple[dict[str, bytes], list[bytes]]:
    """Return the values and the waiting chunks of the state in that second of the scenario.

    The last half minute is a batch of its own, which changes many groups by repetitions only.
    """
    stream, split_ms = Stream(), START_MS + (second - 30) * 1000
    events = list(Simulation(load_scenario(scenario), 1, START_MS).events(second * 1000))
    for batch in (part(events, 0, split_ms), part(events, split_ms, START_MS + second * 1000)):
        stream.feed(batch)
    return stream._store.values, stream._store.pending


def read_states(root: Path) -> tuple[int, dict[str, DictShardStore]]:
    """Return the version of the archive's states, and the states by scenario."""
    number, states = msgspec.msgpack.decode((root / "states.msgpack").read_bytes())
    stores = {name: DictShardStore() for name in states}
    for name, (values, pending) in states.items():
        stores[name].values, stores[name].pending = values, pending
    return number, stores


def read_events(root: Path) -> Log:
    return [(topic, event) for topic, event in map(json.loads, (root / "events.jsonl").read_text().splitlines())]


def main() -> None:
    archive = GOLDEN / f"release-{version('balancewatch')}.tar.gz"
    with tempfile.TemporaryDirectory() as folder:
        jars = Settings.load().paths.jars
        spark = start_spark(Settings.load(), Path(folder) / "spark.log")
        root = Path(folder) / "release"
        root.mkdir()
        with scratch_kafka(jars) as kafka:
            write_release(root, kafka, spark)
        spark.stop()
        with tarfile.open(archive, "w:gz") as file:
            for path in sorted(root.iterdir()):
                file.add(path, path.name)
    say(f"wrote {archive} ({archive.stat().st_size >> 10} KB)")


if __name__ == "__main__":
    main()
