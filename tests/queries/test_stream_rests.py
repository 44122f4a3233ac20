"""A resting query under the real Spark: neither wait_until_idle nor the end waits for the rest."""

import threading
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from schemas.events import PULLS
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.queries.running import Rest
from streaming.service.service import Service
from tests.conftest import settings_for

pytestmark = [pytest.mark.spark, pytest.mark.real]

REST_S = 600.0


def test_a_rest_delays_neither_an_awaited_batch_nor_the_end(
    empty_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting = threading.Semaphore(0)
    monkeypatch.setattr(Rest, "after", lambda *_: REST_S)
    monkeypatch.setattr(Service, "rests", lambda *_: resting.release())
    settings = settings_for(empty_kafka, tmp_path)

    def reported() -> set[bytes]:
        rows = DeltaTable(str(settings.paths.warehouse / "quarantine")).to_pyarrow_table().to_pylist()
        return {row["raw"] for row in rows}

    with Publisher(settings.kafka) as publisher, Service(settings, spark=spark) as service:

        def send(value: bytes) -> None:
            publisher.publish_raw(PULLS, b"sample", value)
            publisher.flush()

        send(b"first")
        assert resting.acquire(timeout=120)
        send(b"second")
        service.wait_until_idle()
        assert reported() == {b"first", b"second"}
        send(b"third")
        while b"third" not in reported():
            assert resting.acquire(timeout=120)
        ending = time.monotonic()
    assert time.monotonic() - ending < REST_S / 2
