"""What retention drops: nothing from the cutoff on, and of what is older nothing that still holds."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from schemas.tables import (
    ACKNOWLEDGEMENTS,
    ALERT_DELIVERIES,
    ALERTS,
    ASSIGNMENTS,
    BACKLOGS,
    BROKER_HEALTH,
    FAULT_ITEMS,
    MEMBERSHIPS,
    QUARANTINE,
    REPAIRS,
    SILENCES,
    TABLES,
    Table,
)
from streaming.maintenance import upkeep as upkeep_module
from streaming.maintenance.files import MB
from streaming.maintenance.small_files import SmallFiles
from streaming.maintenance.upkeep import KEPT, SUBJECTS, drop_old, find_old
from streaming.warehouse.tables import table_path
from tests.maintenance.rows import DAY_MS, NOW_MS, Row, read, row_of, write, write_in_turn
from tests.support.examples import examples

CUTOFF_MS = NOW_MS - 10 * DAY_MS
OLDER, OLD, NEW = CUTOFF_MS - 5 * DAY_MS, CUTOFF_MS - 1, CUTOFF_MS


@dataclass(frozen=True)
class Keyed:
    """A table whose newest row of a key is its state: what is drawn for a row, and whether such a row still holds."""

    table: Table
    key: Callable[[int], Row]
    drawn: dict[str, Sequence[Any]]
    holds: Callable[[Row], bool]


KEYED = [
    Keyed(ASSIGNMENTS, lambda n: {"queue_id": n}, {"verdict": ["OK", "UNOWNED", "NOT_JUDGED"]}, lambda _: True),
    Keyed(
        BACKLOGS,
        lambda n: {"queue_id": n},
        {"messages": [None, 400, 1_000, 90_000]},
        lambda row: (row["messages"] or 0) >= 1_000,
    ),
    Keyed(
        MEMBERSHIPS,
        lambda n: {"client_id": f"c{n}"},
        {"change": ["JOINED", "CHANGED", "LEFT", "EXPIRED"]},
        lambda row: row["change"] in ("JOINED", "CHANGED"),
    ),
    Keyed(
        FAULT_ITEMS, lambda n: {"client_id": f"p{n}"}, {"available": [True, False]}, lambda row: not row["available"]
    ),
    Keyed(BROKER_HEALTH, lambda n: {"broker_name": f"b{n}"}, {"unavailable_producers": [0, 1]}, lambda _: True),
    Keyed(
        SILENCES,
        lambda n: {"silence_id": f"s{n}"},
        {"ends_at": [OLDER, OLD, NEW, NOW_MS]},
        lambda row: bool(row["ends_at"] >= CUTOFF_MS),
    ),
]


def at(table: Table, rows: Sequence[Row], moment_ms: int) -> list[Row]:
    """`<table>_at(moment)`, in plain Python."""
    until = [row for row in rows if row[table.time] <= moment_ms]
    newest = {tuple(row[column] for column in table.key): row for row in ordered(table, until)}
    return list(newest.values())


def ordered(table: Table, rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row[table.time], row["batch_id"]))


def drop(warehouse: Path, table: Table) -> int:
    subject = SUBJECTS.get(table.name)
    subjects = DeltaTable(table_path(warehouse, subject.table.name)) if subject else None
    handle = DeltaTable(table_path(warehouse, table.name))
    found = find_old(handle, table, CUTOFF_MS, subjects)
    dropped = drop_old(handle, table, CUTOFF_MS, subjects).dropped
    assert found.dropped == dropped
    return dropped


@pytest.mark.parametrize("keyed", KEYED, ids=lambda keyed: keyed.table.name)
@examples(12)
@given(data=st.data())
def test_every_question_about_a_moment_from_the_cutoff_on_is_answered_as_before(
    keyed: Keyed, data: st.DataObject
) -> None:
    """But for keys that were gone by then; and of what is older, nothing stays that no such question needs."""
    table = keyed.table
    values = st.fixed_dictionaries({name: st.sampled_from(one) for name, one in keyed.drawn.items()})
    moments = st.sampled_from([OLDER, OLDER + 1, OLD, NEW, NEW + 1, NOW_MS])
    drawn = data.draw(st.lists(st.tuples(st.integers(0, 3), moments, values), min_size=1, max_size=12))
    with tempfile.TemporaryDirectory() as folder:
        rows = [row_of(table, at_ms, **keyed.key(number), **columns) for number, at_ms, columns in drawn]
        write_in_turn(Path(folder), table, rows)
        before = read(Path(folder), table.name)
        dropped = drop(Path(folder), table)
        after = read(Path(folder), table.name)
        assert drop(Path(folder), table) == 0
    wanted_ids = {row["batch_id"] for row in at(table, before, CUTOFF_MS - 1) if keyed.holds(row)}
    assert {row["batch_id"] for row in after if row[table.time] < CUTOFF_MS} == wanted_ids
    assert dropped == len(before) - len(after)
    for moment_ms in (CUTOFF_MS, CUTOFF_MS + 1, NOW_MS):
        expected = [row for row in at(table, before, moment_ms) if row[table.time] >= CUTOFF_MS or keyed.holds(row)]
        assert ordered(table, at(table, after, moment_ms)) == ordered(table, expected)


def incident(warehouse: Path, name: str, *steps: tuple[str, int], reported_ms: int | None = None) -> None:
    write(warehouse, ALERTS, [row_of(ALERTS, at_ms, incident_id=name, state=state) for state, at_ms in steps])
    delivered = row_of(ALERT_DELIVERIES, reported_ms or steps[-1][1] + 1, incident_id=name)
    write(warehouse, ALERT_DELIVERIES, [delivered])
    write(warehouse, ACKNOWLEDGEMENTS, [row_of(ACKNOWLEDGEMENTS, steps[0][1] + 1, incident_id=name)])


@pytest.fixture
def incidents(tmp_path: Path) -> Path:
    incident(tmp_path, "over", ("PENDING", OLDER), ("FIRING", OLDER + 1), ("RESOLVED", OLD - 9), reported_ms=OLD)
    incident(tmp_path, "open", ("PENDING", OLDER), ("FIRING", OLDER + 1))
    incident(tmp_path, "unknown", ("FIRING", OLDER), ("UNKNOWN", OLD))
    incident(tmp_path, "ended since", ("FIRING", OLDER), ("RESOLVED", NEW))
    incident(tmp_path, "new", ("FIRING", NEW + 1))
    return tmp_path


def test_an_incident_goes_whole_once_it_was_over_before_the_cutoff_and_stays_whole_until_then(incidents: Path) -> None:
    before = {row["incident_id"]: 0 for row in read(incidents, "alerts")}
    assert drop(incidents, ALERTS) == 3
    counts = before | {}
    for row in read(incidents, "alerts"):
        counts[row["incident_id"]] += 1
    assert counts == {"over": 0, "open": 2, "unknown": 2, "ended since": 2, "new": 1}


@pytest.mark.parametrize("table", [ALERT_DELIVERIES, ACKNOWLEDGEMENTS], ids=lambda table: table.name)
def test_what_was_reported_of_an_incident_stays_as_long_as_the_incident(incidents: Path, table: Table) -> None:
    """A relay that found the incident without it would tell it again."""
    assert drop(incidents, table) == 0
    drop(incidents, ALERTS)
    assert drop(incidents, table) == 1
    assert {row["incident_id"] for row in read(incidents, table.name)} == {"open", "unknown", "ended since", "new"}


def test_a_dry_look_at_deliveries_counts_the_incidents_that_would_be_gone_by_then(incidents: Path) -> None:
    deliveries, alerts = (DeltaTable(table_path(incidents, name)) for name in ("alert_deliveries", "alerts"))
    assert find_old(deliveries, ALERT_DELIVERIES, CUTOFF_MS, alerts, CUTOFF_MS).dropped == 1
    assert find_old(deliveries, ALERT_DELIVERIES, CUTOFF_MS, alerts, OLDER).dropped == 0


def test_a_row_without_incident_id_does_not_drop_open_incidents(incidents: Path) -> None:
    before = set(DeltaTable(table_path(incidents, "alerts")).file_uris())
    write(incidents, ALERTS, [row_of(ALERTS, OLDER, state="RESOLVED")])
    (file,) = set(DeltaTable(table_path(incidents, "alerts")).file_uris()) - before
    rows = pq.read_table(file)
    column = rows.schema.get_field_index("incident_id")
    pq.write_table(rows.set_column(column, "incident_id", pa.nulls(1, pa.string())), file)
    cut = find_old(DeltaTable(table_path(incidents, "alerts")), ALERTS, CUTOFF_MS, None)
    assert set(cut.kept["incident_id"].to_pylist()) == {"open", "unknown", "ended since"}


def test_a_repair_stays_as_long_as_its_message_so_that_nothing_is_replayed_twice(tmp_path: Path) -> None:
    for offset, at_ms in enumerate((OLDER, NEW)):
        write(tmp_path, QUARANTINE, [row_of(QUARANTINE, at_ms, offset=offset)])
        write(tmp_path, REPAIRS, [row_of(REPAIRS, OLD, offset=offset, step="REPLAYED")])
    assert drop(tmp_path, REPAIRS) == 0
    assert drop(tmp_path, QUARANTINE) == 1
    assert drop(tmp_path, REPAIRS) == 1
    assert [row["offset"] for row in read(tmp_path, "repairs")] == [1]


@pytest.mark.parametrize("name", ["prod-[ab]", "prod-*", "prod-?"])
def test_no_row_of_another_warehouse_comes_in_where_the_folders_name_is_a_pattern(name: str, tmp_path: Path) -> None:
    """The sibling has a file of each name that this one has, so whatever the pattern finds is in both."""
    for incident_id, state in (("over", "RESOLVED"), ("open", "FIRING")):
        incident(tmp_path / "prod-a", incident_id, (state, OLDER))
    shutil.copytree(tmp_path / "prod-a", tmp_path / name)
    alerts, deliveries = (DeltaTable(table_path(tmp_path / name, table)) for table in ("alerts", "alert_deliveries"))
    assert find_old(alerts, ALERTS, CUTOFF_MS, None).old_rows == 2
    assert find_old(deliveries, ALERT_DELIVERIES, CUTOFF_MS, alerts).old_rows == 2
    if "[" in name:
        return  # delta-rs cannot write below a folder of such a name; Spark can
    assert drop(tmp_path / name, ALERTS) == 1
    assert drop(tmp_path / name, ALERT_DELIVERIES) == 1
    assert [row["incident_id"] for row in read(tmp_path / name, "alerts")] == ["open"]
    assert [row["incident_id"] for row in read(tmp_path / name, "alert_deliveries")] == ["open"]


def test_columns_that_this_release_does_not_know_keep_their_values(tmp_path: Path) -> None:
    """A newer release may have written the table."""
    rows = [row_of(ASSIGNMENTS, at_ms, queue_id=number) for number, at_ms in ((1, OLDER), (1, OLD), (2, OLD))]
    write_in_turn(tmp_path, ASSIGNMENTS, rows)
    path = table_path(tmp_path, "assignments")
    older = DeltaTable(path).to_pyarrow_table().sort_by("batch_id")
    newer = older.append_column("of_a_newer_release", pa.array(["a", "b", None]))
    write_deltalake(path, newer, mode="overwrite", schema_mode="overwrite")
    assert drop(tmp_path, ASSIGNMENTS) == 1
    kept = {row["queue_id"]: row["of_a_newer_release"] for row in read(tmp_path, "assignments")}
    assert kept == {1: "b", 2: None}


def test_a_compaction_meanwhile_brings_no_dropped_row_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        at_ms = NOW_MS - (100 * DAY_MS if number < 4 else 0) + number
        write(tmp_path, ASSIGNMENTS, [row_of(ASSIGNMENTS, at_ms, queue_id=number // 2)], number)
    path, calls = table_path(tmp_path, "assignments"), list[str]()

    def late(*args: Any, **kwargs: Any) -> None:
        if not calls:
            files = SmallFiles(path, MB)
            assert all(map(files.compact, files.bins(MB)))
        calls.append(path)
        write_deltalake(*args, **kwargs)

    monkeypatch.setattr(upkeep_module, "write_deltalake", late)
    assert drop_old(DeltaTable(path), ASSIGNMENTS, NOW_MS - 50 * DAY_MS, None).dropped == 2
    assert len(calls) == 2, "the second time from the files as they are then"
    assert sorted((row["queue_id"], row["batch_id"]) for row in read(tmp_path, "assignments")) == [
        (0, 1),
        (1, 3),
        (2, 4),
        (2, 5),
    ]


def test_every_table_has_its_rule() -> None:
    assert KEPT.keys() == TABLES.keys()
