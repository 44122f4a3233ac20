"""Tables and locks in a bucket: one holder, appends once each, whatever answers are lost."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import obstore
import pytest
from deltalake import DeltaTable, Transaction

from streaming.maintenance.files import delete_unused, find_unused
from streaming.warehouse import occupancy as module
from streaming.warehouse.appender import Appender
from streaming.warehouse.occupancy import BucketLock, HeldError, occupying
from streaming.warehouse.table_store import StoreUnreachableError, list_files, store_of
from tests.support.s3_server import environment_of, faulty_proxy
from tests.warehouse.holding import holder, kill, refused, take
from tests.warehouse.tables import append_beside_delta_rs, leave_orphan, make_table, numbers, read

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("s3")]


@pytest.fixture
def path(bucket: str) -> str:
    return make_table(f"{bucket}/table")


def names(path: str) -> set[str]:
    return {found.path for found in list_files(path) if found.path.endswith(".parquet") and "/" not in found.path}


def test_appends_of_two_and_of_delta_rs_beside_compactions_lose_and_repeat_nothing(path: str) -> None:
    append_beside_delta_rs(path, [Appender(path), Appender(path)], 15)


def first_puts(times: int, end: str, fault: str, met: list[str]) -> Callable[[str, str], str | None]:
    """Let the first PUTs of such a key meet a fault, and note them in `met`."""

    def fault_of(method: str, called: str) -> str | None:
        if method != "PUT" or not called.partition("?")[0].endswith(end) or len(met) == times:
            return None
        met.append(called)
        return fault

    return fault_of


@pytest.mark.parametrize("times", [1, 20], ids=["once", "for long"])
@pytest.mark.parametrize("transaction", [Transaction("app", 1), None], ids=["a batch", "no batch"])
def test_a_commit_whose_answer_is_lost_is_in_once(
    path: str, s3_address: str, monkeypatch: pytest.MonkeyPatch, times: int, transaction: Transaction | None
) -> None:
    lost: list[str] = []
    with faulty_proxy(s3_address, first_puts(times, f"{1:020}.json", "lost", lost)) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert Appender(path).append(numbers(1), transaction)
        assert Appender(path).append(numbers(2))
        assert read(path) == [1, 2]
    assert lost


@pytest.mark.parametrize("end", [f"{1:020}.json", ".parquet"], ids=["commit", "data"])
def test_a_409_of_the_bucket_is_retried(path: str, s3_address: str, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Amazon answers 409 while another request for the same key is in flight: nobody may have written the key."""
    called: list[str] = []
    with faulty_proxy(s3_address, first_puts(3, end, "409", called)) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert Appender(path).append(numbers(1), Transaction("app", 1)) == 1
        assert read(path) == [1]
    assert len(called) == 3


def test_a_file_without_its_commit_is_taken_by_vacuum_and_a_strangers_stays(path: str) -> None:
    leave_orphan(path)
    (orphan,) = names(path)
    obstore.put(store_of(path), "mine.parquet", b"x")
    Appender(path).append(numbers(1))
    handle = DeltaTable(path)
    unused = handle.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True, full=True)
    assert orphan in unused
    assert find_unused(handle, 168) == [], "what a writer may be writing stays"
    delete_unused(path, [orphan])
    assert orphan not in names(path)
    assert "mine.parquet" in names(path)
    assert read(path) == [1]


def test_no_secret_is_in_a_table(path: str) -> None:
    Appender(path).append(numbers(1))
    secret = environment_of("")["AWS_SECRET_ACCESS_KEY"].encode()
    for found in list_files(path):
        assert secret not in bytes(obstore.get(store_of(path), found.path).bytes())


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.1)
    monkeypatch.setattr(module, "LEASE_SECONDS", 3.0)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each process seem to be on another machine, so that none knows which processes live."""
    monkeypatch.setattr(module, "machine", lambda: "")


def words_in(bucket: str) -> Any:
    return json.loads(bytes(obstore.get(store_of(bucket), "run.lock").bytes()))


def test_a_second_process_is_refused_until_the_first_ends(bucket: str) -> None:
    with occupying("run", "run", {"paths.warehouse": bucket}):
        said = refused(bucket)
    assert f"paths.warehouse = {bucket!r}: in use by `balancewatch run` (pid " in said
    assert "; stop it first" in said
    assert words_in(bucket)["free"] is True
    take(bucket)


def test_a_bucket_that_is_away_refuses_in_a_sentence(
    bucket: str, s3_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with faulty_proxy(s3_address, lambda method, path: "cut") as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(StoreUnreachableError, match=r"paths.warehouse = 's3://.*does not answer"):
            take(bucket)


def test_the_lock_of_a_process_killed_on_this_machine_is_free_at_once(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEASE_SECONDS", 3_600.0)
    with holder(bucket) as process:
        kill(process)
        take(bucket)


@pytest.mark.usefixtures("elsewhere")
def test_the_lock_of_a_process_killed_elsewhere_expires(bucket: str) -> None:
    with holder(bucket):
        pass
    began = time.monotonic()
    take(bucket)
    assert time.monotonic() - began >= module.LEASE_SECONDS


@pytest.mark.usefixtures("elsewhere")
def test_one_of_several_waiting_processes_takes_an_expired_lock(bucket: str) -> None:
    with holder(bucket):
        pass
    locks = [BucketLock(bucket, "run.lock", f"run {number}", lambda: None) for number in range(4)]
    taken, refused = [], []

    def try_lock(lock: BucketLock) -> None:
        lock.look()
        try:
            lock.take()
            taken.append(lock)
        except HeldError:
            refused.append(lock)

    threads = [threading.Thread(target=try_lock, args=(lock,)) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (1, 3)
    taken[0].release()


def test_a_holder_that_lost_its_lock_ends_and_leaves_the_new_holder_alone(bucket: str) -> None:
    is_lost = threading.Event()
    lock = BucketLock(bucket, "run.lock", "run", is_lost.set)
    lock.look()
    lock.take()
    stolen = {"command": "run", "pid": 7, "host": "other", "since": "now", "id": "other"}
    obstore.put(store_of(bucket), "run.lock", json.dumps(stolen).encode())
    assert is_lost.wait(30)
    lock.release()
    assert lock.lost_to == "`balancewatch run` (pid 7 on other, since now)"
    assert words_in(bucket) == stolen


def test_an_unreadable_lock_is_free(bucket: str) -> None:
    obstore.put(store_of(bucket), "run.lock", b"\x00not json")
    take(bucket)
