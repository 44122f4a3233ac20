"""A batch of several tasks under the real Spark: each has its own shard, and together they tell what one tells."""

import threading
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from conf.settings import Settings, SettingsError
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.queries import balance
from streaming.queries.checkpoint import checkpoint_of, frozen_tasks
from streaming.service.service import Service
from tests.conftest import settings_for
from tests.twins_log import Story, story_in

pytestmark = [pytest.mark.spark, pytest.mark.real]

TABLES = ("alerts", "assignments", "memberships", "fault_items", "broker_health")


def rows_after(settings: Settings, spark: SparkSession) -> dict[str, list[str]]:
    """What `run --available-now` has written, by table, in no order; whose batch it was does not matter."""
    with Service(settings, available_now=True, spark=spark) as service:
        service.wait(threading.Event())
    return {table: sorted(map(_reported, _read(settings, table))) for table in TABLES}


def _read(settings: Settings, table: str) -> list[dict[str, Any]]:
    return DeltaTable(str(settings.paths.warehouse / table)).to_pyarrow_table().to_pylist()


def _reported(row: dict[str, Any]) -> str:
    return repr(sorted((name, value) for name, value in row.items() if name != "batch_id"))


def test_three_tasks_describe_what_one_reports_and_their_number_is_frozen(
    loaded_kafka: EmbeddedKafka, warm_spark: SparkSession, tmp_path: Path, reported: Story
) -> None:
    found = {}
    for tasks in (0, 3):
        settings = settings_for(loaded_kafka, tmp_path / str(tasks), queries={"tasks": tasks})
        found[tasks] = rows_after(settings, warm_spark.newSession())
        assert all(found[tasks].values())
        checkpoint = checkpoint_of(balance.NAME, settings)
        state = checkpoint / "state" / "0"
        assert frozen_tasks(checkpoint) == (tasks or 1)
        assert len([one for one in state.iterdir() if one.name.isdigit()]) == (tasks or 1)
        assert story_in(settings) == reported
    assert found[3] == found[0]

    other = settings_for(loaded_kafka, tmp_path / "3", queries={"tasks": 2})
    with pytest.raises(SettingsError, match="was created with 3"):
        rows_after(other, warm_spark.newSession())
    unset = settings_for(loaded_kafka, tmp_path / "3")
    assert rows_after(unset, warm_spark.newSession()) == found[3]
