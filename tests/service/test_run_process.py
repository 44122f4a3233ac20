"""`balancewatch` as a process: `simulate` publishes, `run` evaluates, and `alerts` prints the result."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from conf.settings import Settings
from streaming.cli import app
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.service.service import Service
from tests.conftest import settings_for
from tests.support.twins_log import SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.real, pytest.mark.proof]

LIFE_SECONDS = 300.0


def environment_for(settings: Settings, **more: str) -> dict[str, str]:
    """The settings as the environment tells them; `more` are others, `SPARK__MASTER` for `spark.master`."""
    reported = {
        "KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "PATHS__WAREHOUSE": str(settings.paths.warehouse),
        "PATHS__CHECKPOINTS": str(settings.paths.checkpoints),
    }
    return os.environ | {f"BALANCEWATCH_{name}": value for name, value in (reported | more).items()}


def test_simulate_publishes_a_scenario_and_alerts_prints_what_became_of_it(
    empty_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    settings = settings_for(empty_kafka, tmp_path)
    simulate = ["simulate", "twins", "--seed", "5", "--seconds", str(SECONDS)]
    command = [sys.executable, "-m", "streaming.cli", *simulate]
    subprocess.run(command, env=environment_for(settings), timeout=LIFE_SECONDS, check=True)
    with Service(settings, available_now=True, spark=spark) as service:
        service.wait(threading.Event())
    arguments = ["alerts", "--format", "json", "--warehouse", str(settings.paths.warehouse)]
    transitions = json.loads(CliRunner().invoke(app, [*arguments, "--history"]).stdout)
    current = json.loads(CliRunner().invoke(app, [*arguments, "--current"]).stdout)
    assert [row["state"] for row in transitions].count("FIRING") == 3
    assert {row["kind"]: (row["state"], bool(row["inhibited_by"])) for row in current} == {
        "duplicate_client_id": ("RESOLVED", False),
        "starved_queue": ("RESOLVED", True),
        "double_consumed_queue": ("RESOLVED", True),
    }
    duplicate = next(row for row in transitions if row["kind"] == "duplicate_client_id")
    views = duplicate["evidence"]["views"]
    assert {len(addrs) for addrs in views.values()} == {2}
    assert all(addr in duplicate["summary"] for addr in views[min(views)])
