"""A folder that machines share, whose locks may not reach the others: one holder all the same, whoever dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.warehouse import folder_place, lease
from streaming.warehouse.folder_place import FolderPlace, is_shared
from streaming.warehouse.lease import Lease, LeaseHeldError
from streaming.warehouse.occupancy import OccupiedError, Wish, occupying, occupying_all
from tests.freezing import freeze

HOLD = """
import sys, time
from pathlib import Path
from streaming.warehouse import folder_place, lease, lease_place
from streaming.warehouse.occupancy import occupying
folder_place.is_shared = lambda _: True
lease.RENEW_SECONDS, folder_place.SETTLE_SECONDS = 0.1, 0.1
if sys.argv[2] == "elsewhere":  # another kernel, whose locks do not come here
    folder_place.fcntl.flock = lambda *_: None
    lease_place.boot = lambda: "another boot"
with occupying("run", "run", {"paths.warehouse": Path(sys.argv[1])}):
    print("held", flush=True)
    time.sleep(120)
"""

FOREVER = 3_600.0
"""Nobody waits for so long: what is followed then was known to be over."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_place, "is_shared", lambda _: True)
    monkeypatch.setattr(folder_place, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.1)
    monkeypatch.setattr(lease, "LEASE_SECONDS", 3.0)
    monkeypatch.setattr(lease, "LOOK_SECONDS", 0.05)


@contextmanager
def holder(folder: Path, where: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, folder, where], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def hold(folder: Path) -> None:
    with occupying("run", "run", {"paths.warehouse": folder}):
        pass


def test_one_on_another_machine_that_lives_is_seen_though_its_lock_is_not(tmp_path: Path) -> None:
    with holder(tmp_path, "elsewhere") as other, pytest.raises(OccupiedError, match=f"pid {other.pid}.*stop it first"):
        hold(tmp_path)


def test_one_that_was_killed_on_another_machine_is_followed_once_its_file_has_not_changed_for_long(
    tmp_path: Path,
) -> None:
    with holder(tmp_path, "elsewhere") as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        began = time.monotonic()
        folders = {"paths.warehouse": tmp_path}
        with occupying_all([Wish("run", "run", folders), Wish("relay", "run", folders)]):
            assert time.monotonic() - began >= lease.LEASE_SECONDS


def test_one_that_was_killed_on_this_machine_is_followed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", FOREVER)
    with holder(tmp_path, "here") as other:
        with pytest.raises(OccupiedError, match=f"pid {other.pid}"):
            hold(tmp_path)
        other.send_signal(signal.SIGKILL)
        other.wait()
        hold(tmp_path)


def test_one_that_ended_as_asked_is_followed_at_once_wherever_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(tmp_path)
    monkeypatch.setattr(lease, "LEASE_SECONDS", FOREVER)
    hold(tmp_path)


def test_one_that_was_suspended_and_followed_meanwhile_ends_when_it_goes_on(tmp_path: Path) -> None:
    with holder(tmp_path, "elsewhere") as other:
        freeze(other.pid)
        with occupying("run", "run", {"paths.warehouse": tmp_path}):
            other.send_signal(signal.SIGCONT)
            assert other.wait(60) == -signal.SIGTERM


def test_of_several_that_come_at_once_where_no_locks_are_one_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    monkeypatch.setattr(folder_place, "SETTLE_SECONDS", 2.0)  # on a busy machine a thread may be away between two lines
    taken, refused = [], []

    def take(number: int) -> None:
        place = FolderPlace(tmp_path / "run.lock")
        one = Lease(place, "run.lock", f"run {number}", lambda _: None)
        try:
            one.take()
            taken.append((one, place))
        except LeaseHeldError:
            refused.append(number)
            place.close()

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (1, 3)
    for one, place in taken:
        one.release()
        place.close()


def test_a_lock_file_that_somebody_deletes_makes_no_two_holders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People do so where they think that it is stale."""
    monkeypatch.setattr(folder_place, "is_shared", lambda _: False)
    lost = threading.Event()
    monkeypatch.setattr(os, "kill", lambda *_: lost.set())

    def delete_and_hold_again() -> None:
        with occupying("run", "run", {"paths.warehouse": tmp_path}):
            (tmp_path / "run.lock").unlink()
            with occupying("run", "run", {"paths.warehouse": tmp_path}):
                assert lost.wait(60)

    with pytest.raises(OccupiedError, match="which took over"):
        delete_and_hold_again()


def test_a_lock_file_of_another_user_that_may_only_be_read_is_lock_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.lock").write_text("")
    opened = os.open

    def refuse(path: Path, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse)
    with (
        occupying("run", "run", {"paths.warehouse": tmp_path}),
        pytest.raises(OccupiedError, match="in use by another process"),
    ):
        hold(tmp_path)


@pytest.mark.parametrize(
    ("folder", "is_of_several"),
    [("/", False), ("/srv/nfs/tables", True), ("/srv/nfs", True), ("/srv/nfsnot", False), ("/mnt/a b/x", True)],
)
def test_a_folder_is_shared_where_its_file_system_is_not_of_one_machine(
    folder: str, is_of_several: bool, tmp_path: Path
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "90 22 0:50 / /srv/nfs rw,relatime shared:9 master:2 - nfs4 server:/export rw,vers=4.2\n"
        "91 22 0:51 / /mnt/a\\040b rw - fuse.sshfs host:/ rw\n"
    )
    assert is_shared(Path(folder), mounts) == is_of_several
    assert not is_shared(Path(folder), tmp_path / "not there")


@pytest.mark.parametrize("has_locks", [True, False])
def test_of_two_that_come_at_once_for_several_locks_one_has_all(
    has_locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were each to have some, both would end."""

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    if not has_locks:
        monkeypatch.setattr("fcntl.flock", refuse)
        monkeypatch.setattr(folder_place, "SETTLE_SECONDS", 2.0)
    folders = {"paths.warehouse": tmp_path / "w", "paths.checkpoints": tmp_path / "c"}
    came, had, refused = threading.Barrier(3), threading.Event(), []

    def come() -> None:
        came.wait()
        try:
            with occupying_all([Wish("run", "run", folders), Wish("relay", "run", folders)]):
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
