"""The power cut of a storm keeps what a process synced, and damages the rest; the hook also sets a process's clock."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.storm import power

WRITER = """
import os, sys
from pathlib import Path
from streaming.warehouse.table_store import create_file, sync_path, write_file
os.mkdir(sys.argv[1])
write_file(sys.argv[1], "synced", b"row")
create_file(sys.argv[1], "created", b"row")
Path(sys.argv[1], "written").write_bytes(b"row")
Path(sys.argv[1], "changed").write_bytes(b"row")
sync_path(Path(sys.argv[1], "changed"))
sync_path(Path(sys.argv[1]))
Path(sys.argv[1], "changed").write_bytes(b"other row")
Path(sys.argv[1], "nameless").write_bytes(b"row")
sync_path(Path(sys.argv[1], "nameless"))
"""


def hooked(*arguments: str, **environment: str) -> str:
    """Run Python with the hook; return what it prints."""
    paths = os.pathsep.join([str(Path(power.__file__).with_name("hook")), str(Path(__file__).parents[3])])
    command = [sys.executable, "-c", *arguments]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_only_what_was_synced_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "KEPT_SHARE", 0.0)
    folder, log = tmp_path / "table", tmp_path / "synced.log"
    hooked(WRITER, str(folder), STORM_SYNCED=str(log))
    damaged = power.cut_power([folder], log, random.Random(1))
    assert {line.rpartition("/")[2] for line in damaged} == {"written", "changed", "nameless"}
    assert (folder / "synced").read_bytes() == (folder / "created").read_bytes() == b"row"
    assert not (folder / "nameless").exists()


def test_what_the_kernel_has_written_back_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "WRITE_BACK_SECONDS", -1.0)
    (tmp_path / "old").write_bytes(b"row")
    assert power.cut_power([tmp_path], tmp_path / "none", random.Random(1)) == []


def test_an_emptied_commit_spares_rows_of_alerts_and_not_their_compaction(tmp_path: Path) -> None:
    log = tmp_path / "alerts" / "_delta_log"
    log.mkdir(parents=True)
    commit = log / f"{1:020}.json"
    commit.write_text('{"commitInfo":{"operation":"WRITE"}}')
    assert power.empty_commit(tmp_path, random.Random(1)) is None
    commit.write_text('{"commitInfo":{"operation":"OPTIMIZE"}}')
    assert power.empty_commit(tmp_path, random.Random(1)) == str(commit)
    assert commit.read_bytes() == b""


def test_the_hook_sets_the_wall_clock_of_one_process(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("3600")
    ahead = float(hooked("import time; print(time.time())", STORM_CLOCK=str(clock))) - time.time()
    assert 3_500 < ahead < 3_700
