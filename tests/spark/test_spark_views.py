"""One warehouse, two engines: every view answers alike in Spark and in DuckDB, every function as the rule it is of.

And streaming/notebooks.md: its examples run, and print what it says they print.
"""

import contextlib
import io
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from schemas.tables import TABLES
from schemas.views import VIEWS
from streaming.spark.views import create_views, open_session
from streaming.store.store import History
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.support.modelled_warehouse import MINUTE, START_MS, fill_warehouse
from tests.support.tiers import in_proof
from udfs.rocketmq.fault import FaultItem, compute_not_available_duration, is_available, only_extends, rules_of
from udfs.rocketmq.version import parse_client_version
from udfs.sql import STRATEGIES, allocate_queues

pytestmark = pytest.mark.spark

MOMENT_MS = START_MS + 11 * MINUTE
FILLED = ("alerts", "assignments", "memberships", "fault_items", "broker_health")

VERSIONS = (
    "4.7.1",
    "V4_9_8",
    "5.1.3",
    "5.1.4",
    "V5_1_4_SNAPSHOT",
    "5.2",
    "5.2.0",
    "5.5.0",
    "HIGHER_VERSION",
    " 5.0.0",
    "",
)
LATENCIES = sorted(
    {at + step for v in ("4.9.8", "5.5.0") for at in rules_of(v).latency_table.latency_max_ms for step in (-1, 0, 1)}
)
QUEUES = [("broker-b", 1), ("broker-a", 10), ("broker-a", 2), ("broker-b", 0), ("broker-a", 0)]
CLIENTS = ["10.0.0.2@9", "10.0.0.1@7", "10.0.0.1@7"]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("views") / "warehouse"
    fill_warehouse(root)
    return root


@pytest.fixture(scope="module")
def spark(warehouse: Path, warm_spark: SparkSession) -> SparkSession:
    """The session of this process, as `open_session` gives it where one runs; its views are in nobody's way."""
    session = open_session(warehouse)
    assert session is warm_spark
    session.conf.set("spark.sql.shuffle.partitions", "2")  # of a hundred rows
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")  # nothing runs long enough to repay a compiler
    return session


def test_workers_do_not_compile_pyspark_anew(spark: SparkSession) -> None:
    """Each one that starts would, from the pyspark.zip that Spark puts first."""
    spark.udf.register("place_of_pyspark", lambda: sys.modules["pyspark"].__file__)
    places = {row[0] for row in spark.sql("SELECT place_of_pyspark() FROM range(2)").collect()}
    assert places == {pyspark.__file__}


def comparable(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, (row.values() for row in rows.to_pylist())), key=repr)


def asked(at_moment: Sequence[str]) -> Iterator[str]:
    """Yield tables that have rows, their newest rows, those named `at_moment` as of one, and every view."""
    moment = datetime.fromtimestamp(MOMENT_MS / 1000, UTC)
    for name in FILLED:
        yield from (name, f"{name}_now")
    for name in at_moment:
        yield f"{name}_at(TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}+00:00')"
    yield from VIEWS
    yield "quality_now"


@pytest.mark.parametrize("at_moment", [("alerts", "assignments"), *in_proof([(FILLED,)])], ids="-".join)
def test_every_view_answers_alike_in_both_engines(
    warehouse: Path, spark: SparkSession, at_moment: Sequence[str]
) -> None:
    history = History(warehouse)
    for rows in asked(at_moment):
        by_spark = spark.sql(f"SELECT * FROM {rows}").toArrow()
        by_duckdb = history.query(f"SELECT * FROM {rows.replace('TIMESTAMP', 'TIMESTAMPTZ')}")
        assert by_spark.column_names == by_duckdb.column_names, rows
        assert comparable(by_spark) == comparable(by_duckdb), rows
        assert by_spark.num_rows or not rows.startswith(FILLED), f"{rows} proves nothing"


def test_every_table_has_its_three_views(spark: SparkSession) -> None:
    for table in TABLES.values():
        for rows in (table.name, f"{table.name}_now", f"{table.name}_at(current_timestamp())"):
            frame = spark.sql(f"SELECT * FROM {rows}")
            assert frame.columns == list(table.names)
            types = [field.dataType.simpleString().upper() for field in frame.schema]
            assert types == [column.type.value for column in table.columns]


def test_a_view_shows_what_was_committed_after_it_was_made(warehouse: Path, spark: SparkSession) -> None:
    before = spark.table("silences_now").count()
    row = {
        "silence_id": "0a0b0c0d",
        "matchers": "{}",
        "created_by": "ada",
        "comment": "release",
        "starts_at": START_MS,
        "ends_at": START_MS + MINUTE,
        "changed_at": START_MS,
    }
    append_rows(DeltalakeWriter(warehouse), {"silences": [row]}, "words", 0)
    assert spark.table("silences_now").count() == before + 1


def test_a_warehouse_without_tables_is_one_of_empty_views(tmp_path: Path, spark: SparkSession, warehouse: Path) -> None:
    try:
        create_views(spark, tmp_path / "nothing")
        assert spark.sql("SELECT incident_id, ended_at FROM incidents").count() == 0
        assert spark.table("alerts").columns == list(TABLES["alerts"].names)
    finally:
        create_views(spark, warehouse)


def test_thresholds_of_every_release_are_the_rules(spark: SparkSession) -> None:
    """Versions, latencies on and beside every threshold, isolation: the CASE says what the function says."""
    samples = list(itertools.product(VERSIONS, LATENCIES, (False, True)))
    frame = spark.createDataFrame(samples, "client_version STRING, latency_ms BIGINT, isolation BOOLEAN")
    found = frame.selectExpr(
        "release_of(client_version) AS release",
        "not_available_duration(client_version, latency_ms, isolation) AS duration",
        "latency_table(client_version).isolation_latency_ms AS isolation_latency_ms",
        "latency_table(client_version).latency_max_ms AS latency_max_ms",
        "latency_table(client_version).not_available_duration_ms AS durations",
        "only_extends(client_version) AS only_extends",
    ).collect()
    for (version, latency_ms, isolation), row in zip(samples, found, strict=True):
        table = rules_of(version).latency_table
        counted_ms = table.isolation_latency_ms if isolation else latency_ms
        assert tuple(row.release) == parse_client_version(version)
        assert row.duration == compute_not_available_duration(counted_ms, version), (version, latency_ms, isolation)
        assert row.isolation_latency_ms == table.isolation_latency_ms
        assert tuple(row.latency_max_ms) == table.latency_max_ms
        assert tuple(row.durations) == table.not_available_duration_ms
        assert row.only_extends == only_extends(version)


def test_availability_at_a_moment_is_the_rules(spark: SparkSession) -> None:
    start = datetime(2026, 9, 10, tzinfo=UTC)
    samples = list(itertools.product(VERSIONS, (-1, 0, 1), (False, True)))
    rows = [(version, start, start + timedelta(seconds=late), reachable) for version, late, reachable in samples]
    frame = spark.createDataFrame(rows, "v STRING, start_timestamp TIMESTAMP, moment TIMESTAMP, reachable BOOLEAN")
    found = frame.selectExpr("is_available(v, start_timestamp, moment, reachable) AS available").collect()
    for (version, late, reachable), row in zip(samples, found, strict=True):
        assert row.available == is_available(FaultItem("b", 1, 1_000, reachable), 1_000 + late, version)


def test_allocation_in_spark_is_the_rules(spark: SparkSession) -> None:
    samples = [(strategy, cid, QUEUES, CLIENTS) for strategy in STRATEGIES for cid in (*CLIENTS, "stranger")]
    queues = "ARRAY<STRUCT<broker_name: STRING, queue_id: INT>>"
    frame = spark.createDataFrame(samples, f"strategy STRING, cid STRING, mq_all {queues}, cid_all ARRAY<STRING>")
    found = frame.selectExpr(
        "allocate_queues(strategy, cid, mq_all, cid_all, 'orders') AS share",
        "allocate_all_queues(strategy, mq_all, cid_all, topic => 'orders')[cid] AS of_all",
    ).collect()
    for (strategy, cid, mq_all, cid_all), row in zip(samples, found, strict=True):
        expected = allocate_queues(strategy, cid, mq_all, cid_all, "orders")
        assert [tuple(one) for one in row.share] == expected
        assert [tuple(one) for one in row.of_all or []] == expected


def test_thresholds_need_no_python(spark: SparkSession) -> None:
    """They are planned as expressions of Spark's own."""
    plan = spark.sql("EXPLAIN SELECT sum(not_available_duration('4.9.8', id)) FROM range(10)").collect()[0][0]
    assert "CASE WHEN" in plan
    assert "Python" not in plan


def test_null_in_is_null_out(spark: SparkSession) -> None:
    queues = "array(struct('b', 0))"
    found = spark.sql(
        "SELECT release_of(null), latency_table(null), not_available_duration(null, 1), only_extends(null), "
        "not_available_duration('4.9.8', null), not_available_duration('4.9.8', 1, null), "
        "is_available('4.9.8', null, current_timestamp()), "
        f"allocate_queues(null, 'a', {queues}, array('a')), allocate_queues('AVG', null, {queues}, array('a')), "
        f"allocate_queues('AVG', 'a', null, array('a')), allocate_queues('AVG', 'a', {queues}, null), "
        f"allocate_queues('AVG', 'a', {queues}, array('a', null)), "
        "allocate_all_queues('AVG', array(struct('b', cast(null AS INT))), array('a'))"
    ).collect()[0]
    assert list(found) == [None] * len(found)


def test_an_unknown_strategy_ends_the_query_with_the_strategies_names(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="'AGV' is not one of AVG, AVG_BY_CIRCLE, CONSISTENT_HASH"):
        spark.sql("SELECT allocate_queues('AGV', 'a', array(struct('b', 0)), array('a'))").collect()


def test_functions_are_described_where_they_are_used(spark: SparkSession) -> None:
    lines = [row[0] for row in spark.sql("DESCRIBE FUNCTION EXTENDED not_available_duration").collect()]
    assert any("computeNotAvailableDuration" in line for line in lines)
    assert any(line.startswith("Deterministic: true") for line in lines)


PAGE = Path(__file__).parents[2] / "streaming" / "notebooks.md"
EXAMPLES = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text())
SAYS = "# ->"


def run(example: str, names: dict[str, Any]) -> list[str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102  # the page's own examples
    return [line.strip() for line in printed.getvalue().splitlines() if line.strip()]


@pytest.mark.proof
def test_the_pages_examples_run_in_their_order_and_print_what_it_says(
    warehouse: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """As in one notebook: what an example adds, the next one finds. `open_session` gives the session there is."""
    names: dict[str, Any] = {"warehouse": str(warehouse), "scratch": str(tmp_path), "now_ms": START_MS + 60 * MINUTE}
    assert len(EXAMPLES) >= 12
    for example in EXAMPLES:
        said = [line.removeprefix(SAYS).strip() for line in example.splitlines() if line.startswith(SAYS)]
        printed = run(example, names)
        assert printed == said or not said, example
    assert names["spark"] is spark
