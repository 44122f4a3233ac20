"""The note beside a checkpoint: what this release wrote it reads, and another's state is refused before anything
starts.
"""

import json
import threading
from importlib.metadata import version
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from conf.section import SettingsError
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.queries.checkpoint import STATE_FILE, StateNote
from streaming.queries.state import ShardIndex
from streaming.queries.written_batch import WrittenBatch
from streaming.service.service import Service
from tests.conftest import settings_for

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
def test_a_note_that_nobody_can_read_says_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    StateNote("balance", tmp_path).refuse_other()


def test_a_disk_that_takes_nothing_costs_the_note_alone(tmp_path: Path) -> None:
    (tmp_path / f".{STATE_FILE}.new").mkdir()
    StateNote("balance", tmp_path).on_batch(BATCH)
    assert not (tmp_path / STATE_FILE).exists()


@pytest.mark.spark
@pytest.mark.real
def test_a_query_notes_its_version_and_another_releases_checkpoint_is_left_as_it_is(
    loaded_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    settings = settings_for(loaded_kafka, tmp_path)
    with Service(settings, available_now=True, spark=spark) as service:
        service.wait(threading.Event())
    checkpoint = settings.paths.checkpoints / "balance"
    assert note_of(checkpoint) == {"state_version": READ, "release": version("balancewatch")}
    (checkpoint / STATE_FILE).write_text(json.dumps({"state_version": READ - 1, "release": "0.0.9"}))
    before = {path: path.stat().st_mtime_ns for path in settings.paths.checkpoints.rglob("*")}
    with pytest.raises(SettingsError, match=f"version {READ - 1}, written by balancewatch 0.0.9"):
        Service(settings, available_now=True, spark=spark)
    assert {path: path.stat().st_mtime_ns for path in settings.paths.checkpoints.rglob("*")} == before
