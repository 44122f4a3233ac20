"""Exclusive use of folders: a second process is refused with the name of the first, and a dead one holds nothing."""

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conf.settings import Settings
from streaming.cli import app
from streaming.service.run_command import only_run
from streaming.warehouse.occupancy import FileLock, OccupiedError, Part, occupying
from tests.support.offenders import assert_none
from tests.support.rocketmq_server import wait_for
from tests.warehouse.holding import holder, refused, take


def test_a_second_process_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    folders = {"paths.warehouse": tmp_path / "w", "paths.checkpoints": tmp_path / "c"}
    with occupying("run", "run", folders):
        said = refused(tmp_path / "w")
    assert f"paths.warehouse = {str(tmp_path / 'w')!r}: in use by `balancewatch run` (pid {os.getpid()}" in said
    assert f" on {socket.gethostname()}, since 20" in said
    take(tmp_path / "w")


@pytest.mark.parametrize("shared", ["paths.warehouse", "paths.checkpoints"])
def test_the_tables_alone_or_the_checkpoints_alone_are_enough_to_refuse(shared: str, tmp_path: Path) -> None:
    one = {"paths.warehouse": tmp_path / "w", "paths.checkpoints": tmp_path / "c"}
    with occupying("run", "run", one):
        refused({key: tmp_path / "other" / key for key in one} | {shared: one[shared]}, match=shared)


def test_a_folder_is_the_same_however_it_is_spelt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "w")
    (tmp_path / "up").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    names = [tmp_path / "link", Path("w"), Path("./up/link"), tmp_path / "x" / ".." / "w", Path("~/w")]
    with occupying("run", "run", {"k": tmp_path / "w"}):
        for name in names:
            refused(name)


def test_a_refused_process_releases_the_locks_that_it_got(tmp_path: Path) -> None:
    with occupying("run", "run", {"k": tmp_path / "c"}):
        refused({"a": tmp_path / "other", "b": tmp_path / "c"})
        take(tmp_path / "other")


def test_one_folder_for_both_is_taken_once(tmp_path: Path) -> None:
    take({"paths.warehouse": tmp_path, "paths.checkpoints": tmp_path / "x" / ".."})


def test_a_run_excludes_a_separate_relay_only_if_it_notifies(tmp_path: Path) -> None:
    paths = {"warehouse": tmp_path / "w", "checkpoints": tmp_path / "c"}
    mute = Settings.load(paths=paths, oncall={"enabled": False})
    speaking = Settings.load(paths=paths)
    with occupying("relay", "relay", {"paths.warehouse": tmp_path / "w"}):
        with only_run(mute):
            pass
        with pytest.raises(OccupiedError, match=r"`balancewatch relay` .* oncall\.enabled = false"), only_run(speaking):
            pass


@pytest.fixture
def often_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.warehouse.occupancy.RENEW_SECONDS", 0.05)


@pytest.mark.usefixtures("often_checked")
def test_a_deleted_lock_file_is_locked_again(tmp_path: Path) -> None:
    path = tmp_path / "w" / "run.lock"
    with occupying("run", "run", {"paths.warehouse": tmp_path / "w"}):
        path.unlink()
        wait_for("it is there again", lambda: path.exists() and path.read_bytes())
        refused(tmp_path / "w", match=f"pid {os.getpid()}")
        path.unlink()
        path.parent.rename(tmp_path / "away")  # an unmounted volume is not made anew
        time.sleep(0.2)
        assert not path.parent.exists()


@pytest.mark.usefixtures("often_checked")
def test_a_holder_whose_lock_file_was_deleted_ends_if_another_process_was_faster(tmp_path: Path) -> None:
    is_lost = threading.Event()
    lock = FileLock(tmp_path / "run.lock", "run", is_lost.set)
    lock.look()
    lock.take()
    faster = tmp_path / "faster"
    with holder(faster) as process:
        (faster / "run.lock").replace(tmp_path / "run.lock")
        assert is_lost.wait(30)
        assert f"(pid {process.pid} on " in lock.lost_to
    lock.release()
    take(tmp_path)


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        refused(tmp_path, match=f"pid {process.pid}")
    take(tmp_path)


def test_a_holder_that_noted_nothing_is_still_a_holder(tmp_path: Path) -> None:
    with occupying("run", "run", {"k": tmp_path}):
        (tmp_path / "run.lock").write_text("")
        refused(tmp_path, match="in use by another process")


def test_a_read_only_lock_file_of_another_user_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.lock").write_text("")
    opened = os.open

    def refuse(path: Path, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse)
    with occupying("run", "run", {"k": tmp_path}):
        refused(tmp_path, match="in use by another process")


def test_one_of_three_concurrent_processes_gets_all_locks(tmp_path: Path) -> None:
    """If each got some of them, all would end."""
    folders = {"paths.warehouse": tmp_path / "w", "paths.checkpoints": tmp_path / "c"}
    came, had, refused = threading.Barrier(3), threading.Event(), []

    def come() -> None:
        came.wait()
        try:
            with occupying(("run", "relay"), "run", folders):
                had.set()
                until = time.monotonic() + 60
                while len(refused) < 2 and time.monotonic() < until:
                    time.sleep(0.02)
        except OccupiedError as error:
            refused.append(error)

    threads = [threading.Thread(target=come) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (had.is_set(), len(refused)) == (True, 2)


def test_a_file_system_without_locks_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    take(tmp_path)


@pytest.mark.parametrize(
    ("part", "arguments"),
    [
        ("run", ["run"]),
        ("run", ["run", "--available-now"]),
        ("relay", ["run"]),
        ("relay", ["relay"]),
        ("relay", ["relay", "--once"]),
    ],
)
def test_a_second_command_exits_with_1_and_one_sentence_before_it_starts_anything(
    part: Part, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Kafka answers there; the command does not ask."""
    started: list[str] = []
    monkeypatch.setattr("streaming.spark.session.start_spark", lambda *_: started.append("spark"))
    monkeypatch.setattr("streaming.service.service.create_topics", lambda *_: started.append("topics"))
    monkeypatch.setenv("BALANCEWATCH_PATHS__WAREHOUSE", str(tmp_path / "w"))
    monkeypatch.setenv("BALANCEWATCH_PATHS__CHECKPOINTS", str(tmp_path / "c"))
    monkeypatch.setenv("BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with occupying(part, part, {"paths.warehouse": tmp_path / "w"}):
        ended = CliRunner().invoke(app, arguments)
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(number, handler)
    assert ended.exit_code == 1
    said = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert f"`balancewatch {part}` (pid {os.getpid()} on " in said[0]
    assert_none(started)


def test_reading_commands_need_no_lock(tmp_path: Path) -> None:
    with occupying("relay", "relay", {"paths.warehouse": tmp_path}):
        shown = CliRunner().invoke(app, ["silence", "list", "--warehouse", str(tmp_path)])
    assert shown.exit_code == 0
