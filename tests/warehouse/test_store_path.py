"""A checkpoint in a bucket is read and written as one in a folder."""

import json
from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.queries.checkpoint import (
    Checkpoint,
    StateNote,
    app_id_of,
    batch_ids,
    checkpoint_of,
    frozen_tasks,
    note_limit,
    put_back,
    read_batch,
    read_position,
    recover,
)
from streaming.queries.state import ShardIndex
from streaming.queries.written_batch import WrittenBatch
from streaming.spark.session import bucket_options
from streaming.warehouse.occupancy import OccupiedError, occupying, work_folders
from streaming.warehouse.store_path import StorePath
from streaming.warehouse.table_store import write_file
from tests.support.s3_server import environment_of

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("s3")]

HEADER = 'v1\n{"conf":{"spark.sql.shuffle.partitions":"4"}}\n'
FILES = {
    "metadata": '{"id":"abc"}',
    "sources/0/0": '\0v1\n{"pulls":{"0":5}}',
    "offsets/9": HEADER + '{"pulls":{"0":20}}',
    "offsets/10": HEADER + '{"pulls":{"0":50}}',
    "commits/9": "v1\n{}",
}
PULLS_0 = ("pulls", 0)


@pytest.fixture
def settings(bucket: str, tmp_path: Path) -> Settings:
    return Settings.load(paths={"warehouse": tmp_path, "checkpoints": bucket.replace("s3:", "s3a:")})


def facts(checkpoint: Checkpoint) -> list[object]:
    """What is read of a checkpoint, before and after writing to it."""
    found: list[object] = [batch_ids(checkpoint), read_position(checkpoint), frozen_tasks(checkpoint)]
    found += [app_id_of("balance", checkpoint), read_batch(checkpoint, 10), read_batch(checkpoint, 9)]
    put_back(checkpoint, {PULLS_0: 7})
    note = StateNote("balance", checkpoint)
    note.on_batch(WrittenBatch("balance", 10, {}))
    note.refuse_other()
    return [*found, note_limit(checkpoint, 400), note_limit(checkpoint, 500), read_position(checkpoint)]


def test_a_bucket_and_a_folder_give_the_same(settings: Settings, tmp_path: Path) -> None:
    folder, stored = tmp_path / "balance", checkpoint_of("balance", settings)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        write_file(str(settings.paths.checkpoints), f"balance/{name}", text.encode())
    assert facts(stored) == facts(folder)
    assert json.loads((stored / "balancewatch.json").read_text())["state_version"] == ShardIndex().version
    assert recover(stored, 10) == []


def test_a_new_checkpoint_is_empty(settings: Settings) -> None:
    stored = checkpoint_of("balance", settings)
    assert (str(stored), stored.is_dir()) == (f"{settings.paths.checkpoints}/balance", False)
    assert (read_position(stored), frozen_tasks(stored), batch_ids(stored)) == (None, None, [])
    with pytest.raises(FileNotFoundError):
        app_id_of("balance", stored)
    assert note_limit(stored, 400) == [(0, 400)]


def test_one_run_holds_it(settings: Settings) -> None:
    folders = {"paths.checkpoints": work_folders(settings)["paths.checkpoints"]}
    refused = pytest.raises(OccupiedError, match=r"paths\.checkpoints = 's3a://.*in use")
    with occupying("run", "run", folders), refused, occupying("run", "run", folders):
        pass


@pytest.mark.usefixtures("bucket")
def test_a_bucket_that_is_not_there_is_an_error_that_names_the_setting() -> None:
    """It is no new checkpoint, with which all would be read again."""
    stored = StorePath("s3a://another-bucket/x", "balance")
    with pytest.raises(OSError, match=r"paths\.checkpoints = 's3a://another-bucket/x': bucket another-bucket does not"):
        read_position(stored)


@pytest.mark.usefixtures("bucket")
def test_spark_gets_the_place_of_the_environment_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    options = bucket_options()
    assert options["spark.hadoop.fs.s3a.endpoint"].startswith("http://127.0.0.1:")
    assert options["spark.hadoop.fs.s3a.endpoint.region"] == "us-east-1"
    assert options["spark.hadoop.fs.s3a.path.style.access"] == "true"
    given = environment_of("")
    assert not {given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"]} & set(options.values())
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
    assert "spark.hadoop.fs.s3a.endpoint" not in bucket_options()
    assert bucket_options()["spark.hadoop.fs.s3a.path.style.access"] == "false"
