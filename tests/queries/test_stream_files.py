"""The real Spark, batch after batch: none of them leaves a file or a socket open in the JVM."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from schemas.events import PULLS
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.service.service import Service
from tests.conftest import settings_for

pytestmark = [pytest.mark.spark, pytest.mark.real]

BATCHES, SPARE = 24, 8


def open_files(spark: SparkSession) -> int:
    jvm = spark._jvm
    assert jvm is not None
    return len(list(Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/fd").iterdir()))


def test_a_batch_leaves_no_file_open(empty_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path) -> None:
    """Spark 4.2.0 left a socket of the state server a task (SPARK-58932): at three batches a second a JVM that may open
    20,000 files was at its end in two hours.
    """
    settings = settings_for(empty_kafka, tmp_path, queries={"rest_ms": 0})
    with Publisher(settings.kafka) as publisher, Service(settings, spark=spark) as service:

        def work_through(batches: int) -> int:
            for number in range(batches):
                publisher.publish_raw(PULLS, b"sample", str(number).encode())
                publisher.flush()
                service.wait_until_idle()
            return open_files(spark)

        before = work_through(4)
        assert work_through(BATCHES) <= before + SPARE
