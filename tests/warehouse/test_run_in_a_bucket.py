"""`run` and its relay over tables in a bucket: the incidents of the rules, each told once, whatever restarts."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.queries.checkpoint import batch_ids, checkpoint_of
from streaming.relay.relay import Relay
from streaming.service.service import Service
from streaming.warehouse.store_path import StorePath
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.conftest import settings_for
from tests.lab.chaos.history import compare, read_history
from tests.relay.fakes import FakeServer
from tests.relay.stage import START_MS, alert_row
from tests.relay.test_relay import keys_of, notified
from tests.service.test_run_process import environment_for
from tests.support.rocketmq_server import wait_for
from tests.support.s3_server import environment_of
from tests.support.twins_log import Story, story_in
from tests.system.test_stopping import command

pytestmark = pytest.mark.real

SECONDS = 240.0
LONG_SECONDS = 900.0


def in_bucket(settings: Settings, bucket: str, **sections: dict[str, Any]) -> Settings:
    paths = {"warehouse": bucket, "checkpoints": settings.paths.checkpoints}
    servers = {"bootstrap_servers": settings.kafka.bootstrap_servers}
    return Settings.load(kafka=servers, paths=paths, **sections)


@pytest.mark.spark
def test_a_log_gives_the_incidents_of_the_rules_and_a_second_run_adds_nothing(
    loaded_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, bucket: str, reported: Story
) -> None:
    often = {"queries": {"max_offsets_per_trigger": 1_200}, "oncall": {"poll_seconds": 0.1}}  # before all of it is over
    settings = in_bucket(settings_for(loaded_kafka, tmp_path), bucket, **often)
    for _ in range(2):
        with Service(settings, available_now=True, spark=spark, notifies=True) as service:
            service.wait(threading.Event())
        assert story_in(settings) == reported
    assert not list(tmp_path.glob("*/_delta_log")), "nothing of the tables is on the disk"
    log = DeltaTable(f"{bucket}/alert_deliveries").to_pyarrow_table()
    assert "DELIVERED" in log["outcome"].to_pylist()


@pytest.mark.proof
@pytest.mark.spark
def test_checkpoints_in_a_bucket_go_on_after_kill_9_and_no_row_is_lost_or_doubled(
    loaded_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, bucket: str, reported: Story
) -> None:
    """The tables are those of a run that was not killed, with its checkpoint in a folder."""
    cut = {"queries": {"max_offsets_per_trigger": 500}, "oncall": {"enabled": False}}
    whole = settings_for(loaded_kafka, tmp_path / "whole", **cut)
    with Service(whole, available_now=True, spark=spark) as service:
        service.wait(threading.Event())
    killed = settings_for(loaded_kafka, tmp_path / "killed", **cut)
    checkpoints = bucket.replace("s3:", "s3a:")
    more = {"QUERIES__MAX_OFFSETS_PER_TRIGGER": "500", "ONCALL__ENABLED": "false", "METRICS__PORT": "0"}
    environment = environment_for(killed, PATHS__CHECKPOINTS=checkpoints, **more)
    commits = StorePath(checkpoints, "balance") / "commits"
    with command(tmp_path, environment, "run", "--available-now") as run:
        wait_for("its third commit", lambda: run.check() or (commits / "2").is_file(), LONG_SECONDS, 0.5)
        os.killpg(run.pid, signal.SIGKILL)
    assert not Path(killed.paths.checkpoints).exists()
    assert not (commits / str(len(batch_ids(checkpoint_of("balance", whole))) - 1)).is_file(), "killed in the middle"
    with command(tmp_path, environment, "run", "--available-now") as run:
        assert run.process
        assert run.process.wait(LONG_SECONDS) == 0, run.printed()
        printed = run.log.read_text()
    assert story_in(killed) == reported
    comparison = compare(read_history(Path(whole.paths.warehouse)), read_history(Path(killed.paths.warehouse)))
    assert comparison.is_equal, comparison.describe()
    given = environment_of("")
    assert not [secret for secret in (given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"]) if secret in printed]


@pytest.mark.proof
def test_a_process_of_its_own_holds_the_bucket_alone_and_shows_no_secret(
    empty_kafka: EmbeddedKafka, tmp_path: Path, bucket: str
) -> None:
    """What it writes here is its canary."""
    settings = in_bucket(settings_for(empty_kafka, tmp_path), bucket)
    log, command = tmp_path / "run.log", [sys.executable, "-m", "streaming.cli", "run"]
    with log.open("wb") as output:
        run = subprocess.Popen(command, env=environment_for(settings), stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for("the canary's rows", lambda: run.poll() is not None or has_rows(bucket), SECONDS, 0.5)
        elsewhere = environment_for(settings, PATHS__CHECKPOINTS=str(tmp_path / "others"))
        for name in ("run", "relay"):
            second = subprocess.run(
                [*command[:-1], name], env=elsewhere, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            assert (second.returncode, "in use by" in second.stderr) == (1, True), second.stderr
        run.terminate()
        assert run.wait(SECONDS) == 0, log.read_text()[-2_000:]
    finally:
        run.kill()
        run.wait()
    assert "not-to-be-shown" not in log.read_text()


def has_rows(bucket: str) -> bool:
    table = f"{bucket}/memberships"
    return DeltaTable.is_deltatable(table) and DeltaTable(table).to_pyarrow_table().num_rows > 0


@pytest.mark.xdist_group("s3")
def test_the_relay_follows_a_bucket_without_spark_and_goes_on_from_it(bucket: str, tmp_path: Path) -> None:
    with FakeServer() as hook:
        settings = Settings.load(paths={"warehouse": bucket, "checkpoints": tmp_path / "c"}, oncall=keys_of(hook.url))
        writer = DeltalakeWriter(bucket)
        append_rows(writer, {"alerts": [alert_row("a", "FIRING", START_MS)]}, "app", 0)
        relay = Relay(settings)
        relay.start()
        assert hook.wait_for(1)
        append_rows(writer, {"alerts": [alert_row("b", "FIRING", START_MS)]}, "app", 1)
        assert hook.wait_for(2)
        relay.stop()
        append_rows(writer, {"alerts": [alert_row("a", "RESOLVED", START_MS + 1)]}, "app", 2)
        relay = Relay(settings)
        relay.start()
        assert hook.wait_for(3)
        relay.stop()
        assert notified(hook) == ["a firing", "b firing", "a resolved"]
