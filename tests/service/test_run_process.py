"""`balancewatch` as processes of its own: killed by SIGKILL, on executors of their own, and what its commands print."""

import json
import os
import signal
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
from tests.support.row_writer import read_alerts
from tests.support.service_process import ServiceProcess
from tests.support.twins_log import SECONDS, Story, story_in

pytestmark = [pytest.mark.spark, pytest.mark.real]

LIFE_SECONDS = 300.0
MOST_BYTES = 2_000


def environment_for(settings: Settings, **more: str) -> dict[str, str]:
    """The settings as the environment tells them; `more` are others, `SPARK__MASTER` for `spark.master`."""
    reported = {
        "KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "PATHS__WAREHOUSE": str(settings.paths.warehouse),
        "PATHS__CHECKPOINTS": str(settings.paths.checkpoints),
    }
    return os.environ | {f"BALANCEWATCH_{name}": value for name, value in (reported | more).items()}


def balancewatch(settings: Settings, *arguments: str, **more: str) -> str:
    """What a command that ends well prints."""
    ended = subprocess.run(
        [sys.executable, "-m", "streaming.cli", *arguments],
        env=environment_for(settings, **more),
        capture_output=True,
        text=True,
        timeout=LIFE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-MOST_BYTES:]
    return ended.stdout


def kill_in_the_middle(settings: Settings, log: Path) -> None:
    """A run of small batches whose entire process group is killed by SIGKILL once it has done a few."""
    environment = environment_for(settings, QUERIES__MAX_OFFSETS_PER_TRIGGER="150")
    run = ServiceProcess(log, environment, "run", "--available-now")
    run.start()
    try:
        run.wait_until((settings.paths.checkpoints / "balance" / "commits" / "3").exists)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.kill()


@pytest.mark.proof
def test_a_run_killed_in_the_middle_is_ended_by_another_elsewhere_without_losing_or_repeating(
    loaded_kafka: EmbeddedKafka, tmp_path: Path, reported: Story
) -> None:
    """The second one keeps its state and its Python workers in an executor, a process beside the driver's."""
    settings = settings_for(loaded_kafka, tmp_path)
    kill_in_the_middle(settings, tmp_path / "run.log")
    assert story_in(settings) != reported
    balancewatch(settings, "run", "--available-now", SPARK__MASTER="local-cluster[1,2,1024]")
    assert story_in(settings) == reported
    rows = read_alerts(settings.paths.warehouse)
    keys = [(row["incident_id"], row["state"], row["changed_at"]) for row in rows]
    assert len(keys) == len(set(keys))


def test_simulate_publishes_a_scenario_and_alerts_prints_what_became_of_it(
    empty_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    settings = settings_for(empty_kafka, tmp_path)
    balancewatch(settings, "simulate", "twins", "--seed", "5", "--seconds", str(SECONDS))
    with Service(settings, available_now=True, spark=spark) as service:
        service.wait(threading.Event())
    arguments = ["alerts", "--format", "json", "--warehouse", str(settings.paths.warehouse)]
    transitions = json.loads(CliRunner().invoke(app, arguments).stdout)
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
