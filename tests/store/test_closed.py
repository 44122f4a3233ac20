"""A closed history answers SQL of the user: it reads the tables, and can neither write nor read anything else."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from streaming.store.store import History
from streaming.warehouse.warehouse_error import FilesGoneError, WarehouseError
from tests.history.hostile import HARMLESS, HOSTILE
from tests.history.warehouse_stage import alert, assignment, write
from tests.support.offenders import assert_none

OTHER_TEXT = "text-of-another-file"

READS = """
SELECT kind, count(*) FILTER (WHERE state = 'FIRING') AS n, max(changed_at) FROM alerts GROUP BY ALL ORDER BY 2 LIMIT 3
SELECT DISTINCT ON (kind) * EXCLUDE (advice) REPLACE (upper(kind) AS kind) RENAME (state AS s) FROM alerts
FROM assignments_at(TIMESTAMPTZ '2026-11-21 03:12:00Z') WHERE verdict = 'UNOWNED'
FROM main.alerts JOIN memory.main.alerts_now USING (incident_id) LEFT JOIN firing ON true LIMIT 10 PERCENT
WITH a AS (FROM alerts), b AS MATERIALIZED (FROM a) SELECT * FROM b WHERE EXISTS (FROM a) OR 1 IN (SELECT 1 FROM b)
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) FROM r
SELECT kind, lag(state) OVER w, row_number() OVER w AS n FROM alerts WINDOW w AS (ORDER BY changed_at) QUALIFY n = 1
SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 3 INTERSECT (SELECT 4 ORDER BY 1 LIMIT 1)
FROM alerts PIVOT (count(*) FOR state IN ('FIRING', 'RESOLVED') GROUP BY kind)
SELECT unnest(queues), list_transform(queues, lambda q: q || '!'), [q FOR q IN queues IF q > ''] FROM alerts
FROM generate_series(1, 3), unnest([1, 2]) AS u(x), json_each('{"a": 1}')
SELECT 'COPY x TO y', $$SELECT 1; SELECT 2$$ -- INSERT
VALUES (1, 'a'), (2, 'b')
TABLE alerts
DESCRIBE alerts
DESCRIBE SELECT * FROM firing
SHOW TABLES
SHOW ALL TABLES
SHOW alerts
SUMMARIZE alerts
SELECT column_name FROM (DESCRIBE alerts)
SELECT table_name, column_name FROM information_schema.columns
EXPLAIN FROM alerts
EXPLAIN ANALYZE SELECT count(*) FROM alerts
"""


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    rows = {"alerts": [alert("one", "FIRING", 5)], "assignments": [assignment(0, "UNOWNED", 0)]}
    return write(tmp_path / "warehouse", rows)


def places(warehouse: Path) -> dict[str, Path]:
    """Return files by their names in HOSTILE; only `new` does not exist."""
    (data,), log = (warehouse / "alerts").glob("*.parquet"), warehouse / "alerts" / "_delta_log"
    found = {"data": data, "log": next(log.glob("*.json")), "other": warehouse / "other.csv"}
    found |= {"secret": warehouse.parent / "secret.csv", "new": warehouse / "new.csv"}
    for name in ("other", "secret"):
        found[name].write_text(f"a\n{OTHER_TEXT}\n")
    return found


def contents(folder: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_hostile_sql_is_refused_in_one_line_and_changes_no_file(warehouse: Path) -> None:
    history, files = History(warehouse, is_closed=True), places(warehouse)
    before = contents(warehouse.parent)

    def answered() -> Iterator[str]:
        for sql in HOSTILE:
            try:
                history.query(sql.format(**files))
            except WarehouseError as error:
                if len(str(error).splitlines()) != 1:
                    yield f"not one line: {sql}"
            else:
                yield f"answered: {sql}"
            if contents(warehouse.parent) != before:
                yield f"changed the files: {sql}"
                return

    assert_none(answered())
    assert history.rows("SELECT count(*) AS n FROM alerts") == [{"n": 1}]


def test_sql_about_duckdb_itself_shows_and_changes_no_file(warehouse: Path) -> None:
    history, files = History(warehouse, is_closed=True), places(warehouse)
    before = contents(warehouse.parent)
    assert_none(sql for sql in HARMLESS if OTHER_TEXT in str(history.query(sql.format(**files)).to_pylist()))
    assert contents(warehouse.parent) == before


def test_read_only_sql_is_answered(warehouse: Path) -> None:
    history = History(warehouse, is_closed=True)

    def refused() -> Iterator[str]:
        for sql in READS.strip().splitlines():
            try:
                history.query(sql)
            except WarehouseError as error:
                yield f"{sql}: {error}"

    assert_none(refused())


def test_a_closed_history_gives_the_rows_of_an_open_one(tmp_path: Path) -> None:
    batches = (
        {"assignments": [assignment(queue, "OK", queue)], "alerts": [alert("a", "FIRING", queue)]} for queue in range(3)
    )
    write(tmp_path, *batches)
    opened, closed = History(tmp_path), History(tmp_path, is_closed=True)
    for view in ("alerts", "alerts_now", "assignments", "incidents", "firing", "memberships"):
        rows = opened.query(f"FROM {view} ORDER BY ALL")
        assert closed.query(f"FROM {view} ORDER BY ALL").equals(rows), view


def test_a_deleted_file_is_reported_as_such(warehouse: Path) -> None:
    opened, closed = History(warehouse), History(warehouse, is_closed=True)
    for file in (warehouse / "alerts").glob("*.parquet"):
        file.unlink()
    for ask in (closed.rows, closed.stream):
        with pytest.raises(FilesGoneError):
            ask("FROM alerts")
    with pytest.raises(WarehouseError, match="No files found"):
        opened.rows("FROM alerts")


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("SELECT " + "(" * 5_000 + "1" + ")" * 5_000, "depth"),
        ("DROP VIEW alerts", "only one SELECT at a time"),
        ("SELECT 1; SELECT 2", "only one SELECT at a time"),
        ("", "only one SELECT at a time"),
        ("EXPLAIN ANALYZE DROP VIEW alerts", "read-only"),
        ("WITH x AS (DELETE FROM alerts RETURNING *) FROM x", "base table"),
        ("FROM read_text('x')", "disabled by configuration"),
        ("FROM alertz", 'Did you mean "alerts"'),
        ("SELECT getenv('HOME')", "does not exist"),
        ("SELECT '\udcff'", "not valid UTF-8"),
        ("SET enable_external_access = true", "only one SELECT at a time"),
    ],
)
def test_a_refusal_names_its_reason(sql: str, sentence: str, warehouse: Path) -> None:
    with pytest.raises(WarehouseError, match=sentence):
        History(warehouse, is_closed=True).query(sql)
