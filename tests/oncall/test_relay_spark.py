"""The relay as it runs: Spark's stream of a real Delta table, a webhook over HTTP, stopped and started again."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.oncall.relay_thread import RelayThread
from streaming.queries.warehouse import DeltalakeWriter, append_rows
from tests.oncall.fakes import FakeServer
from tests.oncall.stage import START_MS, Row, alert_row

pytestmark = pytest.mark.spark


@pytest.fixture
def hook() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path, hook: FakeServer) -> Settings:
    oncall: dict[str, Any] = {
        "receivers": [{"name": "hook", "type": "webhook", "url": hook.url}],
        "routes": [{"name": "all", "receivers": ["hook"]}],
        "poll_seconds": 0.2,
    }
    paths = {"warehouse": tmp_path / "warehouse", "checkpoints": tmp_path / "checkpoints"}
    return Settings.load(paths=paths, oncall=oncall)


def told(hook: FakeServer) -> list[str]:
    return [f"{one['fingerprint']} {one['status']}" for call in hook.received for one in call.fields["alerts"]]


def test_the_stream_brings_each_alert_once_across_stops_and_a_lost_checkpoint(
    settings: Settings, hook: FakeServer, spark: SparkSession
) -> None:
    """Started again it tells exactly what is new; a checkpoint that is gone, or a stream that dies, changes nothing."""
    writer = DeltalakeWriter(settings.paths.warehouse)
    batches = iter(range(100))

    def write(*rows: Row) -> None:
        append_rows(writer, {"alerts": list(rows)}, "app", next(batches))

    first = RelayThread(settings, lambda: spark)
    first.start()
    write(alert_row("a", "FIRING", START_MS))
    assert hook.wait_for(1)
    write(alert_row("b", "PENDING", START_MS), alert_row("b", "FIRING", START_MS + 1))
    assert hook.wait_for(2)
    first.stop()
    assert not first.is_alive()

    write(alert_row("a", "RESOLVED", START_MS + 9), alert_row("c", "FIRING", START_MS + 9))
    second = RelayThread(settings, lambda: spark)
    second.start()
    assert hook.wait_for(4)
    write(alert_row("c", "FIRING", START_MS + 20, queues=["broker-a:0", "broker-a:1"]))
    assert hook.wait_for(5)
    for query in spark.streams.active:
        query.stop()
    write(alert_row("d", "FIRING", START_MS + 21))
    assert hook.wait_for(6)
    second.stop()

    (settings.paths.checkpoints / "relay").rename(settings.paths.checkpoints / "gone")
    third = RelayThread(settings, lambda: spark)
    third.start()
    write(alert_row("e", "FIRING", START_MS + 30))
    assert hook.wait_for(7)
    third.stop()
    assert told(hook)[:2] == ["a firing", "b firing"]
    assert sorted(told(hook)[2:4]) == ["a resolved", "c firing"]
    assert told(hook)[4:] == ["c firing", "d firing", "e firing"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("relay")]


def test_a_checkpoint_of_tables_that_were_moved_away_is_set_aside(
    settings: Settings, hook: FakeServer, spark: SparkSession
) -> None:
    warehouse, checkpoints = settings.paths.warehouse, settings.paths.checkpoints
    for number, name in enumerate("ab"):
        writer = DeltalakeWriter(warehouse)
        relay = RelayThread(settings, lambda: spark)
        relay.start()
        for step in ("0", "1"):
            append_rows(writer, {"alerts": [alert_row(name + step, "FIRING", START_MS)]}, "app", int(step))
            assert hook.wait_for(2 * number + int(step) + 1)
        deadline = time.monotonic() + 60
        while len(list(checkpoints.glob("relay_of_another_table_*"))) < number or not spark.streams.active:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        relay.stop()
        warehouse.rename(warehouse.with_name(f"moved_{name}"))
    assert told(hook) == ["a0 firing", "a1 firing", "b0 firing", "b1 firing"]
    assert len(list(checkpoints.glob("relay_of_another_table_*"))) == 1
