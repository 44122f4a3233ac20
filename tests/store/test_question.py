"""What may be asked: what reads is answered, and what would write, run other SQL or read anything else is refused."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streaming.store.question import check_question
from streaming.store.sql_functions import CALLABLE, TABLE_FUNCTIONS
from streaming.store.store import History, WarehouseError
from tests.history.hostile import HOSTILE
from tests.history.warehouse_stage import alert, assignment, write
from tests.offenders import assert_none

READS = """
SELECT kind, count(*) FILTER (WHERE state = 'FIRING') AS n, max(changed_at) FROM alerts GROUP BY ALL ORDER BY 2 LIMIT 3
SELECT DISTINCT ON (kind) * EXCLUDE (advice) REPLACE (upper(kind) AS kind) RENAME (state AS s) FROM alerts
FROM assignments_at(TIMESTAMPTZ '2026-11-21 03:12:00Z') WHERE verdict = 'UNOWNED'
FROM main.alerts JOIN memory.main.alerts_now USING (incident_id) LEFT JOIN firing ON true LIMIT 10 PERCENT
FROM alerts a ASOF JOIN alerts b ON a.kind = b.kind AND a.changed_at >= b.changed_at
FROM alerts SEMI JOIN incidents USING (incident_id) USING SAMPLE 10%
WITH a AS (FROM alerts), b AS MATERIALIZED (FROM a) SELECT * FROM b WHERE EXISTS (FROM a) OR 1 IN (SELECT 1 FROM b)
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) FROM r
WITH RECURSIVE r(n, m) USING KEY (n) AS (SELECT 1, 2 UNION SELECT n, m + 1 FROM r WHERE m < 3) FROM r
WITH "a.b" AS (SELECT 1) FROM "a.b"
SELECT kind, lag(state) OVER w, row_number() OVER w AS n FROM alerts WINDOW w AS (ORDER BY changed_at) QUALIFY n = 1
SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 3 INTERSECT (SELECT 4 ORDER BY 1 LIMIT 1)
FROM alerts PIVOT (count(*) FOR state IN ('FIRING', 'RESOLVED') GROUP BY kind)
UNPIVOT (SELECT 1 AS a, 2 AS b) ON a, b INTO NAME n VALUE v
SELECT kind, grouping(kind) FROM alerts GROUP BY GROUPING SETS ((kind), ()), ROLLUP (state)
SELECT unnest(queues), list_transform(queues, lambda q: q || '!'), [q FOR q IN queues IF q > ''] FROM alerts
SELECT queues[1:2].list_sort().array_to_string(','), evidence::JSON->>'$.a', {'a': 1}.a, MAP {'k': 2}['k'] FROM alerts
SELECT COLUMNS('.*_at') - INTERVAL 1 DAY FROM alerts
SELECT * LIKE '%id' FROM alerts
SELECT CASE kind WHEN 'a' THEN 1 ELSE 2 END, kind IS NULL, kind NOT BETWEEN 'a' AND 'b', kind::BLOB FROM alerts
SELECT DATE '2026-01-01' + 1, now() - INTERVAL '2 hours', extract(hour FROM now()), now() AT TIME ZONE 'UTC'
SELECT 2 ** 3, 7 // 2, 5!, 'a' ~ 'b', 'x' GLOB '*', 'a' SIMILAR TO 'b', 1 IS DISTINCT FROM NULL, TRY(1 / 0)
SELECT quantile_cont(n, 0.9), arg_max(n, n), string_agg(n, ',' ORDER BY n DESC) FROM range(10) AS t(n)
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
SUMMARIZE SELECT kind FROM alerts
SELECT column_name FROM (DESCRIBE alerts)
SELECT table_name, column_name FROM information_schema.columns
EXPLAIN FROM alerts
EXPLAIN ANALYZE SELECT count(*) FROM alerts
explain analyze select 1;
"""

MADE_BY_THE_PARSER = {
    *(
        "!=",
        "->",
        "<>",
        "==",
        "fill",
        "first_value",
        "grouping",
        "grouping_id",
        "lag",
        "last_value",
        "lead",
        "nth_value",
    ),
    *("nth_value", "cume_dist", "dense_rank", "ntile", "percent_rank", "rank", "rank_dense", "row_number", "unnest"),
}


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    rows = {"alerts": [alert("one", "FIRING", 5)], "assignments": [assignment(0, "UNOWNED", 0)]}
    return write(tmp_path / "warehouse", rows)


def places(warehouse: Path) -> dict[str, Path]:
    """Files by the names that HOSTILE has for them; `new` alone is not there."""
    (data,), log = (warehouse / "alerts").glob("*.parquet"), warehouse / "alerts" / "_delta_log"
    found = {"data": data, "log": next(log.glob("*.json")), "other": warehouse / "other.csv"}
    found |= {"secret": warehouse.parent / "secret.csv", "new": warehouse / "new.csv"}
    for name in ("other", "secret"):
        found[name].write_text("a\n1\n")
    return found


def contents(folder: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def answered(history: History, files: Mapping[str, Path], folder: Path) -> Iterator[str]:
    before = contents(folder)
    for sql in HOSTILE:
        try:
            history.query(sql.format(**files))
        except WarehouseError as error:
            if len(str(error).splitlines()) != 1:
                yield f"not one line: {sql}"
        else:
            yield f"answered: {sql}"
        if contents(folder) != before:
            yield f"changed the files: {sql}"
            return


@pytest.mark.parametrize("seal", [None, lambda _: None], ids=["open", "sealed"])
def test_what_is_not_a_question_is_refused_and_no_file_changes(seal: Any, warehouse: Path) -> None:
    assert_none(answered(History(warehouse, seal=seal), places(warehouse), warehouse.parent))


def test_what_reads_is_answered(warehouse: Path) -> None:
    history = History(warehouse, seal=lambda _: None)

    def refused() -> Iterator[str]:
        for sql in READS.strip().splitlines():
            try:
                history.query(sql)
            except WarehouseError as error:
                yield f"{sql}: {error}"

    assert_none(refused())


def test_a_function_that_may_be_called_is_one_of_duckdb_s() -> None:
    """A name that is no function any more, or is misspelt, might become one that does otherwise."""
    known = {row[0].lower() for row in duckdb.sql("SELECT function_name FROM duckdb_functions()").fetchall()}
    assert_none((CALLABLE | TABLE_FUNCTIONS) - known - MADE_BY_THE_PARSER)


def test_read_parquet_is_for_files_that_are_named(tmp_path: Path) -> None:
    cursor, own = duckdb.connect(), {"/a/1.parquet", "/a/2.parquet"}
    check_question(cursor, "FROM read_parquet(['/a/1.parquet', '/a/2.parquet'], union_by_name = true)", own)
    for listed in ("['/a/1.parquet', '/b']", "'/a/1.parquet'", "[]", "['/a/' || '1.parquet']", "(SELECT ['/b'])"):
        with pytest.raises(WarehouseError, match="own files"):
            check_question(cursor, f"FROM read_parquet({listed}, union_by_name = true)", own)


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("SELECT " + "(" * 5_000 + "1" + ")" * 5_000, "depth"),
        ("SELECT " + " + ".join(["1"] * 900), "nested too deeply"),
        ("SELECT '" + "x" * 1_000_000 + "'", "1000000 are allowed"),
        ("WITH x AS (DELETE FROM alerts RETURNING *) FROM x", "DELETE is refused"),
        ("FROM read_text('x')", "function read_text does not exist here"),
        ("FROM alertz", 'Did you mean "alerts"'),
        ("SELECT '\udcff'", "not valid UTF-8"),
    ],
)
def test_a_refusal_says_what_it_is_about(sql: str, sentence: str, warehouse: Path) -> None:
    with pytest.raises(WarehouseError, match=sentence):
        History(warehouse).query(sql)
