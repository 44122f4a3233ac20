"""The tables as views: what is seen of them, whatever state their files are in, and what cannot be done to them."""

import random
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from schemas.tables import ALERTS, ASSIGNMENTS, MEMBERSHIPS, TABLES, Table
from schemas.views import VIEWS, newest_sql
from streaming.store.store import History
from streaming.store.table_files import newest_of
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import open_table, table_path
from streaming.warehouse.warehouse_error import WarehouseError
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.history.warehouse_stage import START_MS, Row, alert, assignment, backlog, member, write
from udfs.alerts.rulebook import CANARY_CLUSTER


def verdicts(history: History, view: str = "assignments") -> list[str]:
    return [row["verdict"] for row in history.rows(f"SELECT verdict FROM {view} ORDER BY changed_at, queue_id")]


def test_a_table_is_every_transition_now_the_newest_of_each_key_and_at_the_newest_until_then(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"assignments": [assignment(0, "OK", 0), assignment(1, "OK", 0)]},
        {"assignments": [assignment(0, "UNOWNED", 60)]},
    )
    history = History(tmp_path)
    assert verdicts(history) == ["OK", "OK", "UNOWNED"]
    assert verdicts(history, "assignments_now") == ["OK", "UNOWNED"]
    assert verdicts(history, "assignments_at(make_timestamptz(1750000059999000))") == ["OK", "OK"]
    assert verdicts(history, f"{history.newest(ASSIGNMENTS, START_MS + 59_999)}") == ["OK", "OK"]
    assert verdicts(history, f"{history.newest(ASSIGNMENTS, START_MS + 60_000)}") == ["OK", "UNOWNED"]


def test_appended_rows_are_those_since_a_version_also_once_they_are_compacted(tmp_path: Path) -> None:
    write(tmp_path, {"assignments": [assignment(0, "OK", 0)]})
    history = History(tmp_path)
    version = history.versions["assignments"]
    append_rows(DeltalakeWriter(tmp_path), {"assignments": [assignment(1, "UNOWNED", 1)]}, "app", 7)
    DeltaTable(table_path(tmp_path, "assignments")).optimize.compact()
    assert history.refresh()
    assert verdicts(history, f"({history.appended(ASSIGNMENTS, version)})") == ["UNOWNED"]
    assert verdicts(history, f"({history.appended(ASSIGNMENTS, history.versions['assignments'])})") == []
    (tmp_path / "assignments" / "_delta_log" / f"{version + 1:020}.json").unlink()
    with pytest.raises(WarehouseError, match=f"version {version + 1} of table assignments is no longer in its log"):
        history.appended(ASSIGNMENTS, version)


def test_of_two_rows_of_one_moment_the_later_batch_is_the_newest(tmp_path: Path) -> None:
    write(tmp_path, {"assignments": [assignment(0, "OK", 0)]}, {"assignments": [assignment(0, "UNOWNED", 0)]})
    assert verdicts(History(tmp_path), "assignments_now") == ["UNOWNED"]


@pytest.mark.parametrize("seed", range(5))
def test_the_fast_form_of_the_newest_rows_gives_what_the_portable_one_gives(seed: int, tmp_path: Path) -> None:
    """Nulls, ties of time across batches, and keys that come once included."""
    rng = random.Random(seed)
    batches: list[dict[str, list[Row]]] = []
    for _ in range(6):
        queues = rng.sample(range(8), rng.randint(1, 8))
        owner = rng.choice([None, "A@1"])
        rows = [
            assignment(queue, rng.choice(["OK", "UNOWNED"]), rng.randint(0, 3), planned_owner=owner) for queue in queues
        ]
        batches.append({"assignments": rows})
    history = History(write(tmp_path, *batches))
    portable = history.rows(f"SELECT * FROM ({newest_sql(ASSIGNMENTS, chr(34))}) ORDER BY queue_id")
    assert history.rows("SELECT * FROM assignments_now ORDER BY queue_id") == portable


def test_every_view_can_be_asked_of_an_empty_warehouse(tmp_path: Path) -> None:
    history = History(write(tmp_path))
    for name in (*TABLES, *(f"{name}_now" for name in TABLES), *VIEWS):
        assert history.rows(f"SELECT * FROM {name}") == []


def test_views_for_people_leave_the_canary_to_the_tables(tmp_path: Path) -> None:
    canary = {"cluster": CANARY_CLUSTER}
    health = {"broker_name": "b", "producers": 1, "unavailable_producers": 1, "changed_at": START_MS}
    rows = {
        "alerts": [alert("one", "FIRING", 5), alert("hid", "FIRING", 5, **canary)],
        "memberships": [member("A@1", "JOINED", 0), member("B@1", "JOINED", 0, **canary)],
        "assignments": [assignment(0, "UNOWNED", 0), assignment(0, "UNOWNED", 0, **canary)],
        "backlogs": [backlog(0, 5_000, 0), backlog(0, 5_000, 0, **canary)],
        "broker_health": [{"cluster": "c", **health}, {**health, **canary}],
    }
    history = History(write(tmp_path, rows))
    for name in VIEWS:
        assert [row["cluster"] for row in history.rows(f"SELECT cluster FROM {name}")] == ["c"], name
    for name in rows:
        for view in (name, f"{name}_now"):
            assert len(history.rows(f"SELECT 1 FROM {view} WHERE cluster = '{CANARY_CLUSTER}'")) == 1


def test_a_folder_without_our_tables_is_refused_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match=r"paths.warehouse = .*nowhere.*: no tables found; has `balancewatch run`"):
        History(tmp_path / "nowhere")
    with pytest.raises(WarehouseError, match=r": no table alerts found; has `balancewatch run`"):
        History(tmp_path, [ALERTS])


def test_a_table_that_is_half_made_is_one_that_nobody_has_written_yet(tmp_path: Path) -> None:
    write(tmp_path, {"assignments": [assignment(0, "OK", 0)]})
    log = tmp_path / "memberships" / "_delta_log"
    for file in log.iterdir():
        file.unlink()
    history = History(tmp_path)
    assert history.rows("SELECT * FROM members") == []
    assert "memberships" not in history.versions


def test_a_log_that_is_damaged_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"assignments": [assignment(0, "OK", 0)]})
    (tmp_path / "assignments" / "_delta_log" / f"{1:020}.json").write_text('{"add": {"path": ')
    with pytest.raises(WarehouseError, match="table assignments cannot be read") as refused:
        History(tmp_path)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_columns_that_an_older_release_did_not_write_are_null(tmp_path: Path) -> None:
    older = replace(MEMBERSHIPS, columns=tuple(one for one in MEMBERSHIPS.columns if one.name != "strategy"))
    row = {name: value for name, value in member("A@1", "JOINED", 0).items() if name != "strategy"}
    write_deltalake(open_table(tmp_path, older), arrow_table([row], older, 0), mode="append")
    assert History(tmp_path).rows("SELECT client_id, strategy FROM members") == [{"client_id": "A@1", "strategy": None}]
    append_rows(DeltalakeWriter(tmp_path), {"memberships": [member("B@1", "JOINED", 1)]}, "app", 1)
    rows = History(tmp_path).rows("SELECT client_id, strategy FROM memberships ORDER BY changed_at")
    assert rows == [{"client_id": "A@1", "strategy": None}, {"client_id": "B@1", "strategy": "AVG"}]


def test_times_as_spark_writes_them_are_the_same_moments_in_every_zone(tmp_path: Path, zone: Any) -> None:
    """Spark's INT96 names no zone, and DuckDB's cursors begin in the machine's."""
    zone("Asia/Shanghai")
    write(tmp_path, {"assignments": [assignment(0, "OK", 0)]})
    table = DeltaTable(table_path(tmp_path, "assignments"))
    (file,) = table.file_uris()
    pq.write_table(pq.read_table(file), file, use_deprecated_int96_timestamps=True)
    history = History(tmp_path)
    start = datetime(2025, 6, 15, 15, 6, 40, tzinfo=UTC)
    assert history.rows("SELECT changed_at FROM assignments_now") == [{"changed_at": start}]
    assert len(history.rows(f"SELECT 1 FROM {history.between(ASSIGNMENTS, START_MS, START_MS)}")) == 1
    for either in (history, History(tmp_path, is_closed=True)):
        shown = either.rows("SELECT changed_at::VARCHAR AS shown FROM assignments")
        assert shown == [{"shown": "2025-06-15 15:06:40+00"}]


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("name", ["with blank", "it's", "naïve", "a#b?"])
def test_a_warehouse_may_have_any_name(name: str, is_closed: bool, tmp_path: Path) -> None:
    write(tmp_path / name, {"assignments": [assignment(0, "OK", 0)]})
    history = History(tmp_path / name, is_closed=is_closed)
    assert verdicts(history) == ["OK"]
    assert history.between(ASSIGNMENTS, START_MS + 1, None).count(".parquet") == 0


def test_what_is_committed_since_is_seen_after_refresh(tmp_path: Path) -> None:
    history = History(write(tmp_path, {"assignments": [assignment(0, "OK", 0)]}))
    assert not history.refresh()
    append_rows(DeltalakeWriter(tmp_path), {"assignments": [assignment(0, "UNOWNED", 60)]}, "app", 1)
    assert verdicts(history) == ["OK"]
    assert history.refresh()
    assert verdicts(history) == ["OK", "UNOWNED"]
    assert history.versions["assignments"] == 2


def test_a_table_that_appears_later_is_seen_after_refresh(tmp_path: Path) -> None:
    write_deltalake(open_table(tmp_path, ALERTS), arrow_table([alert("one", "FIRING", 5)], ALERTS, 0), mode="append")
    history = History(tmp_path)
    assert verdicts(history) == []
    write(tmp_path, {"assignments": [assignment(0, "OK", 0)]})
    history.refresh()
    assert verdicts(history) == ["OK"]


def compact_and_vacuum(warehouse: Path) -> None:
    table = DeltaTable(table_path(warehouse, "assignments"))
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def test_files_that_compaction_and_vacuum_took_away_are_looked_for_anew(tmp_path: Path) -> None:
    write(tmp_path, *({"assignments": [assignment(queue, "OK", queue)]} for queue in range(3)))
    history = History(tmp_path)
    assert verdicts(history) == ["OK"] * 3
    compact_and_vacuum(tmp_path)
    assert len(list((tmp_path / "assignments").glob("*.parquet"))) == 1
    assert verdicts(history) == ["OK"] * 3
    assert history.file_counts["assignments"] == 1


def test_a_span_is_of_the_files_of_when_it_is_asked(tmp_path: Path) -> None:
    """So it can be asked again after a vacuum, and of 10,000 files is no longer than SQL may be."""
    write(tmp_path, *({"assignments": [assignment(queue, "OK", queue)]} for queue in range(3)))
    asked = [
        (history, rows_until(history))
        for rows_until in (
            lambda history: history.between(ASSIGNMENTS, START_MS, START_MS + 1_000),
            lambda history: history.newest(ASSIGNMENTS, START_MS + 1_000),
        )
        for history in (History(tmp_path), History(tmp_path))
    ]
    compact_and_vacuum(tmp_path)
    for number, (history, rows) in enumerate(asked):
        question = f"SELECT queue_id FROM {rows} ORDER BY 1"
        batches = history.query(question).to_batches() if number % 2 else history.stream(question)
        assert [queue for batch in batches for queue in batch["queue_id"].to_pylist()] == [0, 1]


def test_a_span_may_begin_before_1970(tmp_path: Path) -> None:
    history = History(write(tmp_path, {"assignments": [assignment(0, "OK", 0)]}))
    for since_ms, until_ms, found in ((-5_000, 0, 0), (-5_000, None, 1), (None, -1, 0)):
        assert len(history.rows(f"FROM {history.between(ASSIGNMENTS, since_ms, until_ms)}")) == found


def test_a_table_that_was_made_anew_is_read_anew(tmp_path: Path) -> None:
    write(tmp_path, *({"assignments": [assignment(queue, "OK", queue)]} for queue in range(3)))
    history = History(tmp_path)
    for file in sorted((tmp_path / "assignments").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    write(tmp_path, {"assignments": [assignment(9, "UNOWNED", 0)]})
    assert verdicts(history) == ["UNOWNED"]


def files_in(history: History, rows: str) -> int:
    return history._now(rows)[1].count(".parquet")


def test_a_span_reads_only_the_files_that_may_have_rows_of_it(tmp_path: Path) -> None:
    write(tmp_path, *({"assignments": [assignment(queue, "OK", 10 * queue)]} for queue in range(10)))
    history = History(tmp_path)
    second = 1000
    assert files_in(history, history.between(ASSIGNMENTS, START_MS + 40 * second, START_MS + 60 * second)) == 3
    assert files_in(history, history.between(ASSIGNMENTS, START_MS + 41 * second, None)) == 5
    assert files_in(history, history.newest(ASSIGNMENTS, START_MS + 19 * second)) == 2
    assert history.between(ASSIGNMENTS) == "assignments"
    assert [
        row["queue_id"] for row in history.rows(f"SELECT * FROM {history.between(ASSIGNMENTS, START_MS + 85000)}")
    ] == [9]
    none = history.between(ASSIGNMENTS, START_MS - 5, START_MS - 1)
    assert history.rows(f"SELECT * FROM {none}") == []


def test_a_file_whose_times_the_log_does_not_describe_is_read(tmp_path: Path) -> None:
    write(tmp_path, {"assignments": [assignment(0, "OK", 0)]})
    log = tmp_path / "assignments" / "_delta_log" / f"{1:020}.json"
    log.write_text(
        "\n".join(
            line.split(',"stats"')[0] + "}}" if '"add"' in line else line for line in log.read_text().splitlines()
        )
    )
    history = History(tmp_path)
    assert files_in(history, history.between(ASSIGNMENTS, START_MS + 10, None)) == 1
    assert len(history.rows(f"SELECT * FROM {history.between(ASSIGNMENTS, START_MS, None)}")) == 1


def test_threads_ask_while_another_appends_and_refreshes(tmp_path: Path) -> None:
    """Each answer is of one version: both tables of a batch, or neither."""
    writer = DeltalakeWriter(tmp_path)
    append_rows(
        writer, {"assignments": [assignment(0, "OK", 0)], "memberships": [member("A@1", "JOINED", 0)]}, "app", 0
    )
    history, failures, stop = History(tmp_path), list[str](), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            (row,) = history.rows(
                "SELECT (SELECT count(*) FROM assignments) AS n, (SELECT count(*) FROM memberships) AS m"
            )
            if row["n"] < row["m"]:
                failures.append(str(row))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for batch_id in range(1, 15):
        rows = {"assignments": [assignment(0, "OK", batch_id)], "memberships": [member("A@1", "CHANGED", batch_id)]}
        append_rows(writer, rows, "app", batch_id)
        history.refresh()
    stop.set()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert history.rows("SELECT count(*) AS n FROM assignments") == [{"n": 15}]


def test_no_file_outside_the_warehouse_can_be_read(tmp_path: Path) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("secret,word\n1,2\n")
    history = History(write(tmp_path / "warehouse"))
    for source in (
        f"read_text('{outside}')",
        f"read_csv('{outside}')",
        f"read_blob('{outside}')",
        f"glob('{outside}*')",
        f"read_text('{tmp_path}/warehouse/../secret.txt')",
        f"'{outside}'",
        "read_parquet('https://example.org/x.parquet')",
    ):
        with pytest.raises(WarehouseError, match=r"Permission Error|does not exist"):
            history.query(f"SELECT * FROM {source}")


@pytest.mark.parametrize("is_closed", [False, True])
def test_neither_the_environment_nor_our_variables_can_be_read(is_closed: bool, tmp_path: Path) -> None:
    history = History(write(tmp_path), is_closed=is_closed)
    for sql in ("SELECT getenv('HOME')", "SELECT * FROM first", "SELECT * FROM params", "SELECT * FROM secret"):
        secret = pa.table({"a": [1]})
        with pytest.raises(WarehouseError, match="does not exist"):
            history.query(sql)
        del secret


def test_a_question_that_needs_too_much_memory_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.store.store.MEMORY_LIMIT", "50MB")
    with pytest.raises(WarehouseError, match=r"needs more than .* of memory; select less"):
        History(write(tmp_path)).query("SELECT len(list(i)) AS n FROM range(100000000) AS rows(i)")


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_the_newest_rows_have_the_columns_of_the_contract_in_their_order(table: Table) -> None:
    columns = ", ".join(f'NULL AS "{name}"' for name in table.names)
    rows = duckdb.sql(f"SELECT * FROM ({newest_of(table, f'(SELECT {columns})')})")
    assert tuple(rows.columns) == table.names
