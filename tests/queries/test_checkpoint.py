"""A checkpoint: the limits of its batches, its number of tasks, its state version."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, PropertyMock

import pytest
from typer.testing import CliRunner

from conf.section import SettingsError
from conf.settings import Settings
from streaming.cli import app
from streaming.queries import checkpoint as module
from streaming.queries.checkpoint import (
    STATE_FILE,
    StateNote,
    frozen_tasks,
    limit_of,
    note_limit,
    refuse_other_tasks,
    tasks_of,
)
from streaming.queries.running import publish_plan
from streaming.queries.state import ShardIndex
from streaming.queries.waiting import PLAN_PROPERTY
from streaming.queries.written_batch import WrittenBatch

PULLS = "rocketmq.pulls"


def begin(checkpoint: Path, batch_id: int, until: int) -> None:
    """Write what Spark writes before a batch runs."""
    for folder in ("offsets", "commits", "sources/0"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id": "one"}')
    (checkpoint / "sources" / "0" / "0").write_text(f'v1\n{{"{PULLS}": {{"0": 0}}}}')
    (checkpoint / "offsets" / str(batch_id)).write_text(f'v1\n{{}}\n{{"{PULLS}": {{"0": {until}}}}}')


def end(checkpoint: Path, batch_id: int) -> None:
    (checkpoint / "commits" / str(batch_id)).touch()


def is_cut(checkpoint: Path, batch_id: int, limit: int | None) -> bool:
    context = MagicMock()
    publish_plan(context, checkpoint, batch_id, limit)
    name, text = context.setLocalProperty.call_args.args
    assert name == PLAN_PROPERTY
    return bool(json.loads(text)[0])


def test_a_batch_that_was_killed_is_cut_as_it_was_though_the_limit_is_another_now(tmp_path: Path) -> None:
    assert note_limit(tmp_path, 400) == [(0, 400)]
    begin(tmp_path, 0, 400)
    end(tmp_path, 0)
    begin(tmp_path, 1, 800)  # killed
    limits = note_limit(tmp_path, 1_000_000)
    assert [limit_of(limits, batch_id) for batch_id in (0, 1, 2)] == [400, 400, 1_000_000]
    assert is_cut(tmp_path, 1, limit_of(limits, 1))
    assert note_limit(tmp_path, 1_000_000) == limits, "killed once more before the batch had ended"


def test_a_batch_that_was_planned_and_never_begun_under_a_limit_takes_the_next(tmp_path: Path) -> None:
    note_limit(tmp_path, 400)
    assert note_limit(tmp_path, 0) == [(0, 0)], "none was planned under the first"


def test_of_a_checkpoint_that_knows_no_limits_a_killed_batch_may_have_been_cut(tmp_path: Path) -> None:
    begin(tmp_path, 3, 10)
    begin(tmp_path, 4, 20)
    limits = note_limit(tmp_path, 0)
    assert limit_of(limits, 4) is None
    assert is_cut(tmp_path, 4, None)
    assert limit_of(limits, 5) == 0


def test_limits_that_do_not_change_are_written_once(tmp_path: Path) -> None:
    for batch_id in range(3):
        assert note_limit(tmp_path, 400) == [(0, 400)]
        begin(tmp_path, batch_id, 400 * (batch_id + 1))
        end(tmp_path, batch_id)
    assert json.loads((tmp_path / "limits.json").read_text()) == [[0, 400]]


OFFSETS = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795360000000,"conf":{"spark.sql.streaming.stateStore.providerClass":'
    '"org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider","spark.sql.shuffle.partitions":"%s"},'
    '"sourceMetadataInfo":{}}\n{"rocketmq.clock":{"0":7}}'
)
"""The format of Spark 4.2; test_stream.py reads the file of a real query."""


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
    "text",
    [None, "", "v1", "v1\n", "v1\nno JSON\n{}", "v1\n{}\n{}", 'v1\n{"conf":null}\n{}', "v1\n[]\n{}", OFFSETS % "x"],
)
def test_an_unreadable_checkpoint_and_one_before_its_first_batch_have_no_frozen_tasks(
    text: str | None, tmp_path: Path
) -> None:
    assert frozen_tasks(tmp_path) is None
    (tmp_path / "offsets").mkdir()
    if text is not None:
        (tmp_path / "offsets" / "0").write_text(text)
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


READ = ShardIndex().version
BATCH = WrittenBatch("balance", 0, {})


def note_of(checkpoint: Path) -> object:
    return json.loads((checkpoint / STATE_FILE).read_text())


def test_what_a_release_notes_after_its_first_batch_it_goes_on_from(tmp_path: Path) -> None:
    note = StateNote("balance", tmp_path)
    note.refuse_other()
    note.on_batch(WrittenBatch("another", 0, {}))
    assert not list(tmp_path.iterdir())
    note.on_batch(BATCH)
    assert note_of(tmp_path) == {"state_version": READ, "release": version("balancewatch")}
    StateNote("balance", tmp_path).refuse_other()


@pytest.mark.parametrize(("held", "release"), [(READ - 1, "0.0.9"), (READ + 1, "0.9.0")])
def test_state_of_an_earlier_or_a_later_release_is_refused_with_what_to_do(
    held: int, release: str, tmp_path: Path
) -> None:
    (tmp_path / STATE_FILE).write_text(json.dumps({"state_version": held, "release": release}))
    with pytest.raises(SettingsError) as said:
        StateNote("balance", tmp_path).refuse_other()
    assert f"state of version {held}, written by balancewatch {release}; " in str(said.value)
    assert f"reads version {READ}. Nothing was changed: reinstall that release, or rewind" in str(said.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"state_version": null, "release": 1}'])
def test_an_unreadable_note_refuses_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    StateNote("balance", tmp_path).refuse_other()


def test_a_disk_that_takes_nothing_costs_the_note_alone(tmp_path: Path) -> None:
    (tmp_path / f".{STATE_FILE}.new").mkdir()
    StateNote("balance", tmp_path).on_batch(BATCH)
    assert not (tmp_path / STATE_FILE).exists()
