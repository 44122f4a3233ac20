"""Lost messages under the real query: Spark goes on with what is left, and nothing of that is skipped."""

import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable
from kafka import KafkaAdminClient, TopicPartition
from pyspark.sql import SparkSession

from conf.settings import Settings
from schemas.events import CLOCKS, PULLS
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.queries.written_batch import WrittenBatch
from streaming.self_monitoring.data_loss import DataLossError
from streaming.service.service import Service, ServiceError
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.conftest import delete_topics, settings_for
from tests.support.calling import Calling
from tests.support.twins_log import Log, publish

pytestmark = [pytest.mark.spark, pytest.mark.real]

START_MS = 1_750_000_000_000


@pytest.fixture(scope="module")
def thirds() -> tuple[Log, Log, Log]:
    """A short run in three parts, each of which ends with a clock event."""
    log = list(Simulation(load_scenario("twins"), 3, START_MS).events(240_000))
    ticks = [number for number, (topic, _) in enumerate(log) if topic == CLOCKS]
    first, second = ticks[len(ticks) // 3] + 1, ticks[2 * len(ticks) // 3] + 1
    return log[:first], log[first:second], log[second:]


def pulls_in(log: Log) -> int:
    return sum(topic == PULLS for topic, _ in log)


def end_of_pulls(settings: Settings) -> int:
    consumer = open_consumer(settings.kafka)
    try:
        return read_spans(consumer, [PULLS])[PULLS, 0].end
    finally:
        consumer.close()


def delete_pulls(settings: Settings, before: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers)
    admin.delete_records({TopicPartition(PULLS, 0): before})
    admin.close()


def make_pulls_again(root: Path, broker: EmbeddedKafka) -> None:
    delete_topics(broker, [PULLS])
    settings_for(broker, root)


def run(settings: Settings, spark: SparkSession) -> int:
    """How many rows it read."""
    with Service(settings, available_now=True, spark=spark) as service:
        service.wait(threading.Event())
        return sum(progress.numInputRows for progress in service.running.query.recentProgress)


def test_it_goes_on_with_what_is_left_and_describe_it_once(
    empty_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, thirds: tuple[Log, Log, Log]
) -> None:
    first, second, third = thirds
    strict = settings_for(empty_kafka, tmp_path, queries={"fail_on_data_loss": True})
    lenient = settings_for(empty_kafka, tmp_path, queries={"fail_on_data_loss": False})
    publish(strict, first)
    assert run(strict, spark)

    publish(strict, second)
    delete_pulls(strict, pulls_in(first) + 5)
    with pytest.raises(DataLossError, match=f"balance needs {PULLS}-0 .* 5 messages lost; set queries.fail_on"):
        run(strict, spark)
    assert run(lenient, spark) == len(second) - 5

    make_pulls_again(tmp_path, empty_kafka)
    publish(strict, third)
    assert end_of_pulls(strict) < pulls_in(first) + pulls_in(second)
    with pytest.raises(DataLossError, match="deleted and recreated"):
        run(strict, spark)
    assert run(lenient, spark) == len(third)
    assert run(strict, spark) == 0

    alerts = DeltaTable(str(lenient.paths.warehouse / "alerts")).to_pyarrow_table().to_pylist()
    losses = [row for row in alerts if row["kind"] == "data_loss"]
    assert [row["state"] for row in losses] == ["FIRING", "FIRING"]  # of one incident, written again
    assert len({row["incident_id"] for row in losses}) == 1


@pytest.mark.proof
def test_retention_that_overtakes_a_running_query_ends_it_with_the_same_sentence(
    empty_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, thirds: tuple[Log, Log, Log]
) -> None:
    first, second, _ = thirds
    settings = settings_for(empty_kafka, tmp_path, queries={"fail_on_data_loss": True})
    publish(settings, first)
    overtaken = threading.Event()

    def overtake(_: WrittenBatch) -> None:
        """While the batch is held: more arrives, and is gone before the next one reads."""
        if not overtaken.is_set():
            overtaken.set()
            publish(settings, second)
            delete_pulls(settings, end_of_pulls(settings))

    with (
        pytest.raises(ServiceError, match=rf"balance needs {PULLS}-0 .* {pulls_in(second)} messages lost"),
        Service(settings, listeners=(Calling(overtake),), spark=spark) as service,
    ):
        service.wait(threading.Event(), 120)
    assert overtaken.is_set()
