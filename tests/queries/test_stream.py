"""The stream on a real Spark, Kafka and Delta: replays, a live run, quarantine, rests, tasks, open files."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from conf.settings import Settings, SettingsError
from schemas.events import EVENTS, PULLS, SEND_LATENCIES
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.metrics.instruments import Instruments
from streaming.metrics.names import METRICS
from streaming.queries import balance
from streaming.queries.balance import shard_keys
from streaming.queries.checkpoint import STATE_FILE, checkpoint_of, frozen_tasks
from streaming.queries.running import Rest
from streaming.queries.state import ShardIndex
from streaming.service.service import Service
from streaming.store.store import History
from tests.conftest import delete_topics, settings_for
from tests.metrics.scraping import Scraper
from tests.support.idle import wait_until_idle
from tests.support.rocketmq_server import wait_for
from tests.support.row_writer import read_alerts
from tests.support.tiers import in_proof
from tests.support.twins_log import Log, Story, publish, story_in

pytestmark = [pytest.mark.spark, pytest.mark.real]

SAMPLES = Path(__file__).parents[2] / "schemas" / "samples"


def run_all_available(settings: Settings, spark: SparkSession) -> None:
    """Work through all that is in Kafka."""
    with Service(settings, available_now=True, spark=spark) as service:
        service.wait(threading.Event())


@pytest.fixture(scope="module")
def drained(
    loaded_kafka: EmbeddedKafka, warm_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """The log, worked through in one batch by one task; tests only read its tables and checkpoint."""
    root = tmp_path_factory.mktemp("drained")
    settings = settings_for(loaded_kafka, root, queries={"max_offsets_per_trigger": 0})
    run_all_available(settings, warm_spark.newSession())
    return settings


def test_a_log_in_one_batch_gives_the_incidents_of_the_rules_and_notes_its_version(
    drained: Settings, reported: Story
) -> None:
    lives = sorted([state for state, _, _ in states] for states in reported.values())
    assert lives == [
        ["FIRING", "RECOVERING", "RESOLVED"],
        ["PENDING", "FIRING", "FIRING", "RESOLVED"],
        ["PENDING", "FIRING", "RECOVERING", "RESOLVED"],
        ["PENDING", "FIRING", "RECOVERING", "RESOLVED"],
    ]
    kinds = {row["kind"] for row in read_alerts(drained.paths.warehouse)}
    assert kinds == {"duplicate_client_id", "starved_queue", "double_consumed_queue", "broker_isolated"}
    assert story_in(drained) == reported
    note = json.loads((checkpoint_of(balance.NAME, drained) / STATE_FILE).read_text())
    assert note == {"state_version": ShardIndex().version, "release": version("balancewatch")}


@pytest.mark.proof
def test_python_workers_that_come_too_late_for_spark_lose_nothing(
    loaded_kafka: EmbeddedKafka,
    spark: SparkSession,
    tmp_path: Path,
    reported: Story,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Spark waits 10 s for a worker it starts, as on a machine that is too busy; the first one here takes longer."""
    late = tmp_path / "python"
    late.write_text(f'#!/bin/sh\nmkdir {tmp_path}/came 2>/dev/null && sleep 11\nexec {sys.executable} "$@"\n')
    late.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(late))
    settings = settings_for(loaded_kafka, tmp_path)
    run_all_available(settings, spark)
    assert "Python worker failed to connect back" in "".join(capsys.readouterr())
    assert story_in(settings) == reported


def cut_power(settings: Settings, lost: int) -> None:
    """Lose what was not synced: the rows of the newest `lost` batches, and what Spark wrote since the rows before."""
    warehouse, checkpoint = Path(str(settings.paths.warehouse)), checkpoint_of(balance.NAME, settings)
    commits: dict[int, list[Path]] = {}
    for file in warehouse.glob("*/_delta_log/*.json"):
        actions = map(json.loads, file.read_text().splitlines())
        for transaction in [one["txn"] for one in actions if "txn" in one and balance.NAME in one["txn"]["appId"]]:
            commits.setdefault(int(transaction["version"]), []).append(file)
    written = sorted(commits)
    for batch_id in written[len(written) - lost :]:
        for file in commits[batch_id]:
            file.write_bytes(b"")
    newest = written[len(written) - lost - 1]
    folders = {checkpoint / "offsets": newest + 1, checkpoint / "commits": newest, checkpoint / "state/0/0": newest + 1}
    unsynced = [
        path
        for folder, first in folders.items()
        for path in folder.iterdir()
        if (number := re.match(r"\.?(\d+)", path.name)) and int(number[1]) >= first
    ]
    assert len(unsynced) > 3
    for path in unsynced:
        path.write_bytes(b"")


@pytest.mark.parametrize("lost", [2, *in_proof([0, 1])])
def test_a_log_cut_into_many_batches_gives_the_same_incidents_after_a_power_cut_too(
    loaded_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, reported: Story, lost: int
) -> None:
    """Rows that are lost are written again, and none twice."""
    settings = settings_for(loaded_kafka, tmp_path, queries={"max_offsets_per_trigger": 500})
    run_all_available(settings, spark)
    assert len(list((checkpoint_of(balance.NAME, settings) / "commits").glob("[0-9]*"))) > 3
    assert story_in(settings) == reported
    cut_power(settings, lost)
    run_all_available(settings, spark)
    rows = read_alerts(settings.paths.warehouse)
    assert len({(row["incident_id"], row["state"], row["changed_at"]) for row in rows}) == len(rows)
    losses = {row["incident_id"] for row in rows if row["kind"] == "data_loss"}
    assert bool(losses) == bool(lost)
    assert {name: states for name, states in story_in(settings).items() if name not in losses} == reported


def samples_of_pulls(settings: Settings) -> list[tuple[bool, int]]:
    rows = History(settings.paths.warehouse).rows(
        "SELECT * FROM quality WHERE suite = ? AND expectation = 'contract_pull_offset in set'", [PULLS]
    )
    return [(row["success"], row["unexpected"]) for row in rows]


@pytest.fixture(scope="module")
def played_live(
    kafka: EmbeddedKafka, warm_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, log: Log, reported: Story
) -> Iterator[tuple[Settings, Scraper]]:
    """The log played at 40 times its speed, and one message that is none, while somebody scrapes the metrics.

    It halts while five queues starve, until that is worked through.
    """
    starved_ms = max(
        at_ms for life in reported.values() for state, at_ms, queues in life if len(queues) == 5 and state == "FIRING"
    )
    half = next(number for number, (_, event) in enumerate(log) if event["event_time_ms"] > starved_ms)
    root = tmp_path_factory.mktemp("live")
    # A busy machine is no failure.
    patient = {"port": 0, "unready_after_seconds": 3_600, "unhealthy_after_seconds": 3_600}
    watchful = {"every_batches": 1, "pause_seconds": 1, "alert_validations": 1_000}
    delete_topics(kafka, EVENTS)  # a sample is of the newest messages, and an earlier test may have left some
    settings = settings_for(kafka, root, queries={"starting_offsets": "latest"}, metrics=patient, quality=watchful)
    with closing(Instruments(settings, "balance")) as instruments:
        instruments.tables._cache_seconds = 0  # at 40 times the speed, states last less than the cache
        scraper = Scraper(instruments.port)
        with Service(settings, instruments=instruments, spark=warm_spark.newSession()) as service:
            wait_until_idle(service)
            with Publisher(settings.kafka) as publisher:
                publisher.publish_raw(PULLS, b"sample", b"no JSON")
                publisher.flush()
            publish(settings, log[:half], speed=40)
            wait_until_idle(service)
            scraper.look()
            publish(settings, log[half:], speed=40)
            wait_until_idle(service)
            scraper.stop()
            # A service that ends does not wait for the first, which takes as long as Great Expectations to import.
            wait_for("samples of pulls", lambda: samples_of_pulls(settings), 120, 0.5)
        yield settings, scraper


def test_a_log_played_live_gives_the_same_incidents(played_live: tuple[Settings, Scraper], reported: Story) -> None:
    assert story_in(played_live[0]) == reported


def test_a_service_at_work_reports_prometheus_and_whoever_keeps_it_running(
    played_live: tuple[Settings, Scraper], log: Log
) -> None:
    """Ready once the query has worked and not before; starved queues are seen while they starve."""
    _, scraper = played_live
    assert set(scraper.alive) == {200}
    assert scraper.ready[0][0] == 503
    assert "Spark is starting" in scraper.ready[0][1]
    assert scraper.ready[-1] == (200, ())
    assert scraper.most("balancewatch_queues", verdict="UNOWNED") == 5
    assert scraper.last("balancewatch_queues", verdict="UNOWNED") == 0
    assert scraper.most("balancewatch_members") == scraper.most("balancewatch_client_ids") + 1
    assert scraper.most("balancewatch_producers", broker_name="broker-b") > 0
    assert scraper.most("balancewatch_incidents", kind="duplicate_client_id", state="FIRING") == 1
    pulls = sum(topic == PULLS for topic, _ in log)
    assert scraper.last("balancewatch_messages_total", query="balance") >= pulls
    assert scraper.last("balancewatch_quarantined_total", topic=PULLS, reason="not_json") == 1
    assert scraper.last("balancewatch_kafka_lag_messages") == 0
    for phase in ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution"):
        assert scraper.last("balancewatch_batch_phase_seconds_count", phase=phase, query="balance") >= 1


def test_a_service_at_work_validates_samples_of_what_it_has_read(played_live: tuple[Settings, Scraper]) -> None:
    assert set(samples_of_pulls(played_live[0])) == {(True, 0)}


def test_every_listed_metric_is_there_in_a_real_run_and_promtool_takes_them(
    played_live: tuple[Settings, Scraper],
) -> None:
    """But those of a relay, of which there is none, and of backlogs, which no group has."""
    _, scraper = played_live
    reported = {name for name in scraper.names() if name.startswith("balancewatch_")}
    backlog = "balancewatch_group_backlog_messages"
    apart = ("balancewatch_notifications_pending", "balancewatch_canary_age_seconds", backlog)
    of_a_relay = [one for one in METRICS if "_delivery_" in one.name or one.name in apart]
    assert reported == {one.name.removesuffix("_total") for one in METRICS if one not in of_a_relay}
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=scraper.text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_every_message_is_either_read_as_good_or_quarantined_whole(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    bad = sorted(SAMPLES.glob("bad.*.json"))
    good = sorted(SAMPLES.glob("good.*.json"))
    settings = settings_for(kafka, tmp_path, queries={"starting_offsets": "latest"})
    sent: dict[bytes, str] = {}
    with Service(settings, spark=spark) as service, Publisher(settings.kafka) as publisher:
        wait_until_idle(service)
        for path in (*bad, *good):
            publisher.publish_raw(topic_of(path), b"sample", path.read_bytes())
        too_large = b'{"cluster": "' + b"x" * (1 << 20) + b'"}'
        publisher.publish_raw(PULLS, b"sample", too_large)
        publisher.publish_raw(SEND_LATENCIES, b"sample", None)
        publisher.flush()
        sent = {path.read_bytes(): path.name.split(".")[1] for path in bad} | {too_large: "too_large"}
        wait_until_idle(service)
        read = [progress.numInputRows for progress in service.running.query.recentProgress]
        assert service.running.query.isActive
    quarantined = DeltaTable(str(settings.paths.warehouse / "quarantine")).to_pyarrow_table().to_pylist()
    assert {row["raw"]: row["reasons"][0].split(":")[0] for row in quarantined if row["raw"]} == sent
    assert len(quarantined) == len(bad) + 2
    assert len({(row["topic"], row["partition"], row["offset"]) for row in quarantined}) == len(quarantined)
    assert sum(read) == len(quarantined) + len(good)


def topic_of(sample: Path) -> str:
    """good.heartbeats.json and bad.missing_field.pulls.json name their event."""
    return next(topic for topic in EVENTS if topic.removeprefix("rocketmq.") in sample.name.split("."))


BATCHES, SPARE = 14, 8


def open_files(spark: SparkSession) -> int:
    jvm = spark._jvm
    assert jvm is not None
    return len(list(Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/fd").iterdir()))


@pytest.mark.proof
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
                wait_until_idle(service)
            return open_files(spark)

        before = work_through(4)
        assert work_through(BATCHES) <= before + SPARE


REST_S = 600.0


def test_a_rest_delays_neither_rows_nor_the_end(
    empty_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting = threading.Semaphore(0)
    monkeypatch.setattr(Rest, "after", lambda *_: REST_S)
    monkeypatch.setattr(Service, "rests", lambda *_: resting.release())
    settings = settings_for(empty_kafka, tmp_path)
    with Publisher(settings.kafka) as publisher:
        publisher.publish_raw(PULLS, b"sample", b"first")
        publisher.flush()
    with Service(settings, spark=spark):
        assert resting.acquire(timeout=120)
        rows = DeltaTable(str(settings.paths.warehouse / "quarantine")).to_pyarrow_table().to_pylist()
        assert {row["raw"] for row in rows} == {b"first"}
        ending = time.monotonic()
    assert time.monotonic() - ending < REST_S / 2


TABLES = ("alerts", "assignments", "memberships", "fault_items", "broker_health")


def rows_in(settings: Settings) -> dict[str, list[str]]:
    """Return the rows by table, in no order; the number of their batch is left out."""
    tables = {name: DeltaTable(str(settings.paths.warehouse / name)).to_pyarrow_table() for name in TABLES}
    return {name: sorted(map(repr, table.drop_columns("batch_id").to_pylist())) for name, table in tables.items()}


@pytest.mark.proof
def test_three_tasks_describe_what_one_reports_and_their_number_is_frozen(
    drained: Settings, loaded_kafka: EmbeddedKafka, warm_spark: SparkSession, tmp_path: Path, reported: Story
) -> None:
    three = settings_for(loaded_kafka, tmp_path, queries={"tasks": 3})
    run_all_available(three, warm_spark.newSession())
    for settings, tasks in ((drained, 1), (three, 3)):
        checkpoint = checkpoint_of(balance.NAME, settings)
        assert frozen_tasks(checkpoint) == tasks
        assert len([one for one in (checkpoint / "state" / "0").iterdir() if one.name.isdigit()]) == tasks
    rows = rows_in(three)
    assert all(rows.values())
    assert rows == rows_in(drained)
    assert story_in(three) == reported

    with pytest.raises(SettingsError, match="was created with 3"):
        run_all_available(settings_for(loaded_kafka, tmp_path, queries={"tasks": 2}), warm_spark.newSession())
    run_all_available(settings_for(loaded_kafka, tmp_path), warm_spark.newSession())
    assert rows_in(three) == rows


@pytest.mark.parametrize("partitions", [3, *in_proof([2, 16])])
def test_a_shuffle_by_key_sends_each_shard_to_its_own_partition(spark: SparkSession, partitions: int) -> None:
    keys = shard_keys(spark, partitions)
    assert keys == shard_keys(spark.newSession(), partitions), "state is kept under them"
    shards = spark.createDataFrame([(key,) for key in keys], "shard int").repartition(partitions, "shard")
    placed = shards.select("shard", F.spark_partition_id().alias("partition")).collect()
    assert {row["shard"]: row["partition"] for row in placed} == {key: number for number, key in enumerate(keys)}


def test_one_shard_needs_no_spark_to_find_its_key() -> None:
    nobody: SparkSession = None  # type: ignore[assignment]  # it is not asked
    assert shard_keys(nobody, 1) == [0]
