"""Rules that change while the service runs: its state stays, no batch is lost or run twice, the new rules act."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.queries.rulebook import rulebook
from streaming.replay.stream import Enveloper, Stream
from streaming.service.service import Service
from tests.conftest import settings_for
from tests.simulator.modelled import MINUTE, START, Events, run
from tests.support.idle import wait_until_idle
from tests.support.rocketmq_server import wait_for
from tests.support.row_writer import read_alerts
from tests.support.twins_log import publish

pytestmark = [pytest.mark.spark, pytest.mark.real]

CHANGE_MS = START + 3 * MINUTE
"""While the twins' incident is open."""

CHANGED = """
[kinds.duplicate_client_id]
severity = "warning"
recovering_ms = 1
[[overrides]]
consumer_group = "*"
pull_silence_ms = 20_000
"""


@contextmanager
def waiting(service: Service) -> Iterator[None]:
    """`wait` in a thread, as `run` has it in its only one."""
    stop = threading.Event()
    thread = threading.Thread(target=service.wait, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def logged(event: str, logs: Sequence[Mapping[str, Any]]) -> None:
    wait_for(event, lambda: any(line["event"] == event for line in logs), 90)


def story(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["incident_id"], row["changed_at"], row["state"], row["severity"], row["reason"]) for row in rows)


def reported_by(first: Settings, then: Settings, halves: tuple[Events, Events]) -> list[tuple[Any, ...]]:
    """What the rules say without Spark: the first half by the first rules, the rest by the others on the same state."""
    stream, enveloper = Stream(rulebook(first)), Enveloper()
    rows = stream.work_through(enveloper.messages(halves[0])).get("alerts", [])
    stream.rulebook = rulebook(then)
    return story([*rows, *stream.work_through(enveloper.messages(halves[1])).get("alerts", [])])


def reported_in(settings: Settings) -> list[tuple[Any, ...]]:
    rows = read_alerts(settings.paths.warehouse, cluster="modelled")
    return story(
        [{**row, "changed_at": round(datetime.fromisoformat(row["changed_at"]).timestamp() * 1000)} for row in rows]
    )


def test_changed_rules_act_on_the_state_as_it_is_and_wrong_ones_change_nothing(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.service.settings_reload.LOOK_SECONDS", 0.2)
    events = run("twins", seed=5, duration_ms=8 * MINUTE)[1]
    first_half = [one for one in events if one[1]["event_time_ms"] < CHANGE_MS]
    halves = (first_half, events[len(first_half) :])
    file = tmp_path / "rules.toml"
    file.write_text("")
    first = settings_for(kafka, tmp_path, queries={"starting_offsets": "latest"}, rules={"file": str(file)})
    with capture_logs() as logs, Service(first, spark=spark) as service, waiting(service):
        wait_until_idle(service)
        publish(first, halves[0])
        wait_until_idle(service)
        first_run = service.running.query.runId
        file.write_text("pull_silence_ms = -1\n")
        logged("settings invalid, keeping the previous ones", logs)
        assert service.running.query.runId == first_run
        file.write_text(CHANGED)
        logged("rules reloaded", logs)
        assert service.running.query.runId != first_run
        publish(first, halves[1])
        wait_until_idle(service)
    then = first.load_again()
    reported = reported_by(first, then, halves)
    assert reported_in(first) == reported
    assert reported != reported_by(first, first, halves)
    (incident,) = {row[0] for row in reported if row[3:] == ("warning", "severity_changed")}
    assert [row[2] for row in reported if row[0] == incident][-1] == "RESOLVED"
    assert "rules.pull_silence_ms = -1: " in next(line["reason"] for line in logs if line["log_level"] == "error")
    changed = {line["key"]: (line["before"], line["after"]) for line in logs if line["event"] == "rule changed"}
    assert changed["rules.kinds.duplicate_client_id.recovering_ms"] == (30_000, 1)
