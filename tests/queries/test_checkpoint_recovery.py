"""Files of a checkpoint that a power cut emptied: removed up to the newest batch with rows, or the start is refused."""

import json
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from streaming.queries.checkpoint import CheckpointError, CheckpointSync, recover
from tests.support.power_cuts import empty, fill_with_nul, lose, truncate

LZ4 = b"LZ4Block" + b"#" * 30 + b"LZ4Block" + bytes(13)
SST = "000001-x.sst"
DESCRIPTIONS = "state/0/_metadata/v2"


def write(path: Path, content: bytes) -> None:
    """A file with Hadoop's checksums beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    sums = [zlib.crc32(content[at : at + 512]).to_bytes(4, "big") for at in range(0, len(content), 512)]
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"".join(sums))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batches 0 to 5, all committed, with a snapshot of version 3."""
    root = tmp_path / "balance"
    write(root / "metadata", b'{"id":"x"}')
    write(root / "sources/0/0", b'\0v1\n{"rocketmq.pulls":{"0":0}}')
    for batch in range(6):
        write(root / f"offsets/{batch}", b'v1\n{"conf":{}}\n{"rocketmq.pulls":{"0":%d}}' % (10 * batch))
        write(root / f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')
        write(root / f"state/0/0/{batch + 1}.changelog", LZ4)
    for start in (0, 4):
        write(root / DESCRIPTIONS / f"{start}", b'v2\n{"operatorInfo":{}}')
    write(root / f"state/0/0/SSTs/{SST}", b"sst!")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        listed = json.dumps({"sstFiles": [{"dfsSstFileName": SST, "sizeBytes": 4}]})
        archive.writestr("metadata", f"v1\n{listed}")
    write(root / "state/0/0/3.zip", (tmp_path / "zip").read_bytes())
    return root


def names(removed: list[Path]) -> set[str]:
    return {f"{path.parent.name}/{path.name}" for path in removed}


CUTS = [empty, fill_with_nul, truncate, lose]


@pytest.mark.parametrize("written", [-1, 4, 5])
def test_an_intact_checkpoint_stays(checkpoint: Path, written: int) -> None:
    before = sorted(checkpoint.rglob("*"))
    assert recover(checkpoint, written) == []
    assert sorted(checkpoint.rglob("*")) == before
    assert recover(checkpoint / "new", -1) == []


@pytest.mark.parametrize("cut", CUTS[:3])
@pytest.mark.parametrize("name", ["metadata", "sources/0/0"])
def test_a_checkpoint_damaged_before_its_first_batch_ended_is_moved_away(
    checkpoint: Path, name: str, cut: Callable[[Path], None]
) -> None:
    cut(checkpoint / name)
    if name == "metadata":
        with pytest.raises(CheckpointError, match=r"mv .*balance .*balance\.damaged"):
            recover(checkpoint, -1)
    else:  # a later batch does not read it
        assert recover(checkpoint, 5) == []
    shutil.rmtree(checkpoint / "commits")
    (moved,) = recover(checkpoint, -1)
    assert moved.name.startswith("balance.damaged-")
    assert (moved / name).exists()
    assert not checkpoint.exists()


@pytest.mark.parametrize("cut", CUTS)
def test_a_damaged_or_missing_commit_lets_its_batch_run_again(checkpoint: Path, cut: Callable[[Path], None]) -> None:
    cut(checkpoint / "commits/5")
    assert names(recover(checkpoint, 5)) <= {"commits/5"}
    assert not (checkpoint / "commits/5").exists()
    assert (checkpoint / "offsets/5").exists()


@pytest.mark.parametrize("cut", CUTS)
def test_a_damaged_plan_of_a_batch_without_rows_is_made_anew(checkpoint: Path, cut: Callable[[Path], None]) -> None:
    cut(checkpoint / "offsets/5")
    recover(checkpoint, 4)
    assert not (checkpoint / "offsets/5").exists()
    assert not (checkpoint / "commits/5").exists()
    assert (checkpoint / "commits/4").exists()


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("written", [3, 4, 5])
def test_damaged_state_lets_the_batch_that_wrote_it_run_again(
    checkpoint: Path, cut: Callable[[Path], None], written: int
) -> None:
    cut(checkpoint / "state/0/0/6.changelog")
    assert names(recover(checkpoint, written)) == {"commits/5"}


def test_batches_without_rows_go_together(checkpoint: Path) -> None:
    """Batch 3 was the last with rows: its start was synced, and nothing since."""
    for name in ("offsets/5", "commits/4", "state/0/0/5.changelog", "state/0/0/6.changelog"):
        empty(checkpoint / name)
    assert names(recover(checkpoint, 3)) == {"offsets/5", "commits/4", "commits/5", "0/6.changelog"}


@pytest.mark.parametrize("is_damaged", [False, True])
def test_state_of_batches_that_are_planned_anew_goes(checkpoint: Path, is_damaged: bool) -> None:
    """Spark would take a snapshot of them for that of the new ones."""
    shutil.copy(checkpoint / "state/0/0/3.zip", checkpoint / "state/0/0/6.zip")
    if is_damaged:
        truncate(checkpoint / "state/0/0/6.zip")
    empty(checkpoint / "offsets/5")
    empty(checkpoint / "state/0/0/6.changelog")
    assert names(recover(checkpoint, 4)) == {"offsets/5", "commits/5", "0/6.changelog", "0/6.zip"}
    assert recover(checkpoint, 4) == []


@pytest.mark.parametrize("damaged", ["3.zip", f"SSTs/{SST}"])
def test_a_damaged_snapshot_goes_if_the_changes_before_it_are_there(checkpoint: Path, damaged: str) -> None:
    truncate(checkpoint / "state/0/0" / damaged)
    assert names(recover(checkpoint, 5)) == {"0/3.zip"}
    assert recover(checkpoint, 5) == []


@pytest.mark.parametrize("cut", CUTS[:3])
def test_a_damaged_description_of_the_operator_goes_if_an_older_one_is_there(
    checkpoint: Path, cut: Callable[[Path], None]
) -> None:
    """Spark writes one at each start; a storm's power cut left zeros, and `run` failed until the end."""
    cut(checkpoint / DESCRIPTIONS / "4")
    assert names(recover(checkpoint, 5)) == {"v2/4"}
    assert recover(checkpoint, 5) == []
    cut(checkpoint / DESCRIPTIONS / "0")
    with pytest.raises(CheckpointError):
        recover(checkpoint, 5)
    shutil.rmtree(checkpoint / "commits")
    (moved,) = recover(checkpoint, -1)
    assert moved.name.startswith("balance.damaged-")


@pytest.mark.parametrize(
    "damaged", ["offsets/5", "commits/4", "state/0/0/5.changelog", "offsets/4", "state/0/0/4.changelog"]
)
def test_a_checkpoint_whose_batch_with_rows_cannot_start_is_refused_with_the_command(
    checkpoint: Path, damaged: str
) -> None:
    empty(checkpoint / damaged)
    empty(checkpoint / "commits/5")
    before = sorted(checkpoint.rglob("*"))
    with pytest.raises(CheckpointError, match=rf"batch 5 started from .* mv {checkpoint} {checkpoint}\.damaged"):
        recover(checkpoint, 5)
    assert sorted(checkpoint.rglob("*")) == before


def test_tables_that_are_ahead_of_the_checkpoint_are_refused(checkpoint: Path) -> None:
    """Spark would give other rows the numbers of batches that the tables have, and they would be skipped."""
    with pytest.raises(CheckpointError):
        recover(checkpoint, 7)


def test_each_file_is_synced_once_with_its_folder(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        "streaming.queries.checkpoint.sync_path", lambda path: synced.append(str(path.relative_to(checkpoint)))
    )
    sync = CheckpointSync(checkpoint)
    sync.sync()
    assert {"metadata", "offsets/5", "offsets/.5.crc", "commits/5", "state/0/0/6.changelog", "offsets"} < {*synced}
    assert {f"state/0/0/SSTs/{SST}", f"{DESCRIPTIONS}/4", DESCRIPTIONS} < {*synced}
    synced.clear()
    sync.sync()
    assert synced == []
    write(checkpoint / "offsets/6", b"v1\n{}")
    sync.sync()
    assert synced[-1] == "offsets"
    assert {*synced} == {"offsets/6", "offsets/.6.crc", "offsets"}
