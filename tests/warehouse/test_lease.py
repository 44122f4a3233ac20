"""One `run` and one relay a bucket: a second one is refused, a dead one's lock is taken, a lost one ends its holder."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from conf.settings import Settings
from streaming.service.run_command import only_run
from streaming.warehouse import lease as module
from streaming.warehouse import lease_place
from streaming.warehouse.lease import Lease, LeaseHeldError
from streaming.warehouse.lease_place import ObjectPlace
from streaming.warehouse.occupancy import OccupiedError, occupying
from streaming.warehouse.table_store import store_of

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("s3")]

HOLD = """
import sys, time
from streaming.warehouse.occupancy import occupying
with occupying("run", "run", {"paths.warehouse": sys.argv[1]}):
    print("held", flush=True)
    time.sleep(120)
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.1)
    monkeypatch.setattr(module, "LEASE_SECONDS", 3.0)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each were on a machine of its own: nobody can tell who lives."""
    monkeypatch.setattr(lease_place, "machine", lambda: "")


@pytest.fixture
def holder(bucket: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, bucket], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def words_in(bucket: str, name: str = "run.lock") -> dict[str, object]:
    found: dict[str, object] = json.loads(bytes(obstore.get(store_of(bucket), name).bytes()))
    return found


def free(bucket: str) -> None:
    with occupying("run", "run", {"paths.warehouse": bucket}):
        pass


def test_a_second_one_is_reported_who_has_it_and_may_go_on_once_it_is_free(bucket: str) -> None:
    with (
        occupying("run", "run", {"paths.warehouse": bucket}),
        pytest.raises(OccupiedError) as said,
        occupying("run", "run", {"paths.warehouse": bucket}),
    ):
        pass
    assert f"paths.warehouse = {bucket!r}: in use by `balancewatch run` (pid " in str(said.value)
    assert "; stop it first" in str(said.value)
    assert words_in(bucket) == {"free": True}
    free(bucket)


def test_a_run_that_reports_people_and_a_relay_of_its_own_do_not_meet(bucket: str, tmp_path: Path) -> None:
    settings = Settings.load(paths={"warehouse": bucket, "checkpoints": tmp_path / "c"})
    with only_run(settings):
        with (
            pytest.raises(OccupiedError, match="only one process may send notifications"),
            occupying("relay", "relay", {"paths.warehouse": bucket}),
        ):
            pass
        other = Settings.load(paths={"warehouse": bucket, "checkpoints": tmp_path / "d"})
        with pytest.raises(OccupiedError, match=r"paths\.warehouse"), only_run(other):
            pass


def test_one_that_was_killed_on_this_machine_is_followed_at_once(
    bucket: str, holder: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEASE_SECONDS", 3_600.0)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    free(bucket)


@pytest.mark.usefixtures("elsewhere")
def test_one_that_died_elsewhere_is_followed_once_its_lock_has_not_changed_for_long(
    bucket: str, holder: "subprocess.Popen[str]"
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    began = time.monotonic()
    free(bucket)
    assert time.monotonic() - began >= module.LEASE_SECONDS


@pytest.mark.usefixtures("elsewhere")
def test_of_several_that_wait_for_a_dead_one_one_follows(bucket: str, holder: "subprocess.Popen[str]") -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    leases = [
        Lease(ObjectPlace(bucket, "run.lock"), "run.lock", f"run {number}", lambda _: None) for number in range(4)
    ]
    taken, refused = [], []

    def take(lease: Lease) -> None:
        try:
            lease.take()
            taken.append(lease)
        except LeaseHeldError:
            refused.append(lease)

    threads = [threading.Thread(target=take, args=(lease,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (1, 3)
    taken[0].release()


def test_a_holder_whose_lock_another_took_is_reported_who(bucket: str) -> None:
    reported: list[str] = []
    is_reported = threading.Event()

    def lose(holder: str) -> None:
        reported.append(holder)
        is_reported.set()

    lease = Lease(ObjectPlace(bucket, "run.lock"), "run.lock", "run", lose)
    lease.take()
    stolen = {"command": "run", "pid": 7, "host": "other", "since": "now", "id": "other"}
    obstore.put(store_of(bucket), "run.lock", json.dumps(stolen).encode())
    assert is_reported.wait(30)
    lease.release()
    assert reported == ["`balancewatch run` (pid 7 on other, since now)"]
    assert words_in(bucket) == stolen, "what another has is not taken from it"


def test_a_lock_that_nobody_can_read_is_free(bucket: str) -> None:
    obstore.put(store_of(bucket), "run.lock", b"\x00not json")
    free(bucket)
