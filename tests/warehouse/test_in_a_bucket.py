"""The same tables in a bucket: appends once each, beside other writers, whatever answers are lost."""

import threading
from collections.abc import Callable

import duckdb
import obstore
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from streaming.maintenance.files import delete_unused, find_unused
from streaming.warehouse.appender import Appender
from streaming.warehouse.delta_log import read_commit
from streaming.warehouse.table_store import list_files, store_of
from tests.s3_server import environment_of, losing_answers
from tests.warehouse.tables import make_table_at, numbers, read

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("s3")]


@pytest.fixture
def path(bucket: str) -> str:
    return make_table_at(f"{bucket}/table")


def names(path: str) -> set[str]:
    return {found.path for found in list_files(path) if found.path.endswith(".parquet") and "/" not in found.path}


def test_appends_of_two_and_of_delta_rs_beside_compactions_lose_and_repeat_nothing(path: str) -> None:
    each, failed = 40, []

    def write(app_id: str, offset: int) -> None:
        try:
            appender = Appender(path)
            for number in range(each):
                for _ in range(2):
                    appender.append(numbers(offset + number), Transaction(app_id, number))
        except Exception as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(f"app-{place}", place * each)) for place in range(2)]
    for writer in writers:
        writer.start()
    others, patient = [], CommitProperties(max_commit_retries=200)
    while any(writer.is_alive() for writer in writers):
        handle = DeltaTable(path)
        handle.optimize.compact(commit_properties=patient)
        handle.create_checkpoint()
        write_deltalake(path, numbers(1000 + len(others)), mode="append", commit_properties=patient)
        others.append(1000 + len(others))
    assert failed == []
    assert read(path) == [*range(2 * each), *others]


@pytest.mark.parametrize("times", [1, 20], ids=["once", "for long"])
@pytest.mark.parametrize("transaction", [Transaction("app", 1), None], ids=["a batch", "no batch"])
def test_a_commit_whose_answer_is_lost_is_in_once(
    path: str, s3_address: str, monkeypatch: pytest.MonkeyPatch, times: int, transaction: Transaction | None
) -> None:
    lost: list[str] = []

    def is_lost(method: str, called: str) -> bool:
        if method == "PUT" and called.endswith(f"{1:020}.json") and len(lost) < times:
            lost.append(called)
            return True
        return False

    with losing_answers(s3_address, is_lost) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert Appender(path).append(numbers(1), transaction)
        assert Appender(path).append(numbers(2))
        assert read(path) == [1, 2]
    assert lost


def test_a_file_without_its_commit_is_taken_by_vacuum_and_a_strangers_stays(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: Callable[..., object] = obstore.put

    def die_before_the_commit(store: object, name: str, content: bytes, **kwargs: object) -> object:
        if name.endswith(".json"):
            raise KeyboardInterrupt
        return put(store, name, content, **kwargs)

    appender = Appender(path)
    with monkeypatch.context() as patch:
        patch.setattr(obstore, "put", die_before_the_commit)
        with pytest.raises(KeyboardInterrupt):
            appender.append(numbers(1))
    (orphan,) = names(path)
    obstore.put(store_of(path), "mine.parquet", b"x")
    Appender(path).append(numbers(1))
    handle = DeltaTable(path)
    unused = handle.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True, full=True)
    assert orphan in unused
    assert find_unused(handle, path, 168) == [], "what a writer may be writing stays"
    delete_unused(path, [orphan])
    assert orphan not in names(path)
    assert "mine.parquet" in names(path)
    assert read(path) == [1]


def test_delta_rs_and_duckdb_read_what_is_appended(path: str) -> None:
    appender = Appender(path)
    for number in range(5):
        appender.append(numbers(number), Transaction("app", number))
    dataset = DeltaTable(path).to_pyarrow_dataset()
    assert sorted(row[0] for row in duckdb.from_arrow(dataset).filter("number > 2").fetchall()) == [3, 4]
    commit = read_commit(path, 3)
    assert commit is not None
    assert len(commit.appended) == 1
    assert read_commit(path, 6) is None


def test_no_secret_is_in_a_table(path: str) -> None:
    Appender(path).append(numbers(1))
    secret = environment_of("")["AWS_SECRET_ACCESS_KEY"].encode()
    for found in list_files(path):
        assert secret not in bytes(obstore.get(store_of(path), found.path).bytes())
