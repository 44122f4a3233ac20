"""How `run` ends when the service does: one sentence and exit code 1; without Spark or Kafka."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streaming.cli import app
from streaming.collector.known_brokers import CollectorError
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.kafka_io.embedded_kafka import EmbeddedKafkaError
from streaming.kafka_io.publisher import PublishError
from streaming.kafka_io.topics import KafkaUnreachableError
from streaming.self_monitoring.data_loss import DataLossError
from streaming.service.service import ServiceError
from streaming.spark.jars import JarsError

pytestmark = pytest.mark.real

SENTENCE = "paths.warehouse = /tables: no space left on its disk"


@pytest.mark.parametrize("form", ["console", "json"])
def test_what_is_known_to_go_wrong_ends_run_with_one_sentence(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, and the same in JSON where that was asked for; never a stack trace."""
    known = (
        CollectorError,
        DataLossError,
        EmbeddedKafkaError,
        JarsError,
        KafkaUnreachableError,
        PublishError,
        RocketMQError,
        ServiceError,
    )
    monkeypatch.setenv("BALANCEWATCH_METRICS__ENABLED", "false")
    for folder in ("WAREHOUSE", "CHECKPOINTS"):  # their own: another test's `run` may be at the default ones
        monkeypatch.setenv(f"BALANCEWATCH_PATHS__{folder}", str(tmp_path / folder.lower()))
    reported: dict[str, tuple[int, Any]] = {}
    for error in known:

        def end(*_: Any, error: type[Exception] = error, **__: Any) -> None:
            raise error(SENTENCE)

        monkeypatch.setattr("streaming.service.run_command.Service", end)
        result = CliRunner().invoke(app, ["--log-format", form, "run", "--bootstrap-servers", "127.0.0.1:1"])
        said = result.stderr.splitlines()
        reported[error.__name__] = (
            result.exit_code,
            said if form == "console" else [json.loads(line)["reason"] for line in said],
        )
    expected = (1, [f"error: {SENTENCE}" if form == "console" else SENTENCE])
    assert {name: one for name, one in reported.items() if one != expected} == {}
