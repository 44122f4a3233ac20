"""How many tasks a batch is: what is set, what a checkpoint has frozen, and what is refused, in a sentence."""

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, PropertyMock

import pytest
from typer.testing import CliRunner

from conf.section import SettingsError
from conf.settings import Settings
from streaming.cli import app
from streaming.queries import tasks as module
from streaming.queries.tasks import frozen_tasks, refuse_other_tasks, tasks_of

OFFSETS = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795360000000,"conf":{"spark.sql.streaming.stateStore.providerClass":'
    '"org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider","spark.sql.shuffle.partitions":"%s"},'
    '"sourceMetadataInfo":{}}\n{"rocketmq.clock":{"0":7}}'
)
"""As Spark 4.2 writes them; test_stream.py has it say so."""


def begun(checkpoint: Path, tasks: object, batch_id: int = 0) -> Path:
    """A checkpoint in which a batch has begun."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch_id)).write_text(OFFSETS % tasks)
    return checkpoint


def settings_with(tasks: int, master: str = "local[8]", **paths: Path) -> Settings:
    return Settings.load(queries={"tasks": tasks}, spark={"master": master}, paths=paths)


@pytest.mark.parametrize(
    ("asked", "frozen", "master", "tasks", "reason"),
    [
        (0, None, "local[8]", 1, "one on one machine, however many cores it has"),
        (0, None, "spark://host:7077", 24, "as many as a cluster has cores"),
        (3, None, "local[8]", 3, "what is set"),
        (3, None, "spark://host:7077", 3, "what is set"),
        (0, 5, "local[8]", 5, "what the checkpoint was begun with"),
        (0, 5, "spark://host:7077", 5, "what the checkpoint was begun with, on a cluster that has grown too"),
        (5, 5, "local[8]", 5, "both"),
    ],
)
def test_a_batch_has_as_many_tasks(
    asked: int,
    frozen: int | None,
    master: str,
    tasks: int,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    checkpoint = tmp_path if frozen is None else begun(tmp_path, frozen)
    settings, spark = settings_with(asked, master), MagicMock()
    spark.sparkContext.defaultParallelism = 24
    refuse_other_tasks(settings, checkpoint)
    assert tasks_of(settings, spark, checkpoint) == tasks, reason
    spark.conf.set.assert_called_once_with("spark.sql.shuffle.partitions", str(tasks))


def test_the_newest_batch_says_what_is_frozen(tmp_path: Path) -> None:
    for batch_id in (2, 9, 10):
        begun(tmp_path, 4, batch_id)
    (tmp_path / "offsets" / ".10.crc").write_bytes(b"crc")
    assert frozen_tasks(tmp_path) == 4


def test_executors_that_come_one_after_the_other_are_all_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    cores, spark = iter([2, 4, 6, 6]), MagicMock()
    type(spark.sparkContext).defaultParallelism = PropertyMock(side_effect=lambda: next(cores))
    assert tasks_of(settings_with(0, "spark://host:7077"), spark, tmp_path) == 6


@pytest.mark.parametrize(
    "text", ["", "v1", "v1\n", "v1\nno JSON\n{}", "v1\n{}\n{}", 'v1\n{"conf":null}\n{}', "v1\n[]\n{}", OFFSETS % "x"]
)
def test_a_checkpoint_that_cannot_be_read_is_spark_s_to_tell(text: str, tmp_path: Path) -> None:
    begun(tmp_path, 1)
    (tmp_path / "offsets" / "0").write_text(text)
    assert frozen_tasks(tmp_path) is None


def test_no_number_is_frozen_before_the_first_batch(tmp_path: Path) -> None:
    assert frozen_tasks(tmp_path / "not yet") is None
    (tmp_path / "offsets").mkdir()
    assert frozen_tasks(tmp_path) is None


def test_another_number_than_the_checkpoint_s_is_refused_with_both(tmp_path: Path) -> None:
    begun(tmp_path, 3)
    with pytest.raises(SettingsError) as refused:
        refuse_other_tasks(settings_with(4), tmp_path)
    assert str(refused.value) == (
        f"queries.tasks = 4: the checkpoint {tmp_path} was created with 3, which cannot change; set 0 or 3, or "
        "rewind (checkpoints/README.md)"
    )


def forbidden(*_: Any, **__: Any) -> None:
    raise AssertionError("neither Kafka nor Spark is asked")


@pytest.mark.real
@pytest.mark.parametrize("available_now", [True, False])
def test_run_refuses_before_anything_is_started_in_one_sentence_and_ends_with_2(
    available_now: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("create_topics", "start_spark"):
        monkeypatch.setattr(f"streaming.service.service.{name}", forbidden)
    monkeypatch.setenv("BALANCEWATCH_QUERIES__TASKS", "4")
    begun(tmp_path / "checkpoints" / "balance", 3)
    paths = ["--warehouse", str(tmp_path / "warehouse"), "--checkpoints", str(tmp_path / "checkpoints")]
    once = ["--available-now"] if available_now else []
    ended = CliRunner().invoke(app, ["run", *once, "--bootstrap-servers", "127.0.0.1:1", *paths])
    reported = [line for line in ended.stderr.splitlines() if '"level": "info"' not in line]
    assert (ended.exit_code, len(reported)) == (2, 1), ended.output
    assert reported[0].startswith("error: ")
    assert "was created with 3, which cannot change" in reported[0]
