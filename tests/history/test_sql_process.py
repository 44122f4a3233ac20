"""The worker process of `sql`: its deadline, memory limit and end, and the output that it passes on."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from streaming.history import sql_process, sql_worker
from streaming.history.sql_process import print_apart
from streaming.store.store import History, with_text
from streaming.warehouse.warehouse_error import WarehouseError
from tests.history.warehouse_stage import alert, rows_of, run, write
from tests.support.offenders import assert_none
from tests.support.tiers import in_proof

ENDLESS = "SELECT count(*) FROM range(1000000000000) AS a(i), range(1000) AS b(j) WHERE i % 7 = j"
COMMAND = [sys.executable, "-m", "streaming.cli", "sql"]

TAKE_LONG = {
    "vectors": ENDLESS,
    "one value": "SELECT length(lpad('x', 2000000000, 'y'))",
    "one pair": "SELECT levenshtein(repeat('x', 100000), repeat('y', 100000))",
    "the planner": "SELECT count(*) FROM "
    + ", ".join(f"alerts AS a{number}" for number in range(400))
    + " WHERE "
    + " AND ".join(f"a{number}.kind = a{number + 1}.kind" for number in range(399)),
    "printing": "SELECT repeat('x', 300000000)",
    "rows": "SELECT * FROM range(1000000000000)",
}

TAKE_MUCH = {
    "one value": "SELECT length(repeat('x', 3000000000))",
    "one list": "SELECT len(range(1000000000))",
    "a list of rows": "SELECT len(list(i)) FROM range(1000000000) AS t(i)",
    "text of rows": "SELECT length(string_agg(repeat('x', 1000000), '')) FROM range(5000)",
}

ODD: dict[str, Any] = {
    "INTERVAL 14 MONTHS": "1 year 2 months",
    "union_value(k := 1)": "1",
    "[union_value(k := 'a')]": "[a]",
    "123::BIGNUM": "123",
    "340282366920938463463374607431768211455::UHUGEINT": "340282366920938463463374607431768211455",
    "'infinity'::TIMESTAMPTZ": "infinity",
    "'-infinity'::TIMESTAMP": "-infinity",
    "'nan'::DOUBLE": None,
    "['-inf'::DOUBLE, 1]": [None, 1.0],
    "TIMESTAMPTZ '2026-11-21 03:12:00Z'": "2026-11-21T03:12:00.000Z",
    "[DATE '2026-11-21']": ["2026-11-21"],
    "NULL": None,
}
"""Values that JSON, Parquet or Python lack, as JSON has them."""

PRINTED = (
    "{'a': INTERVAL 1 DAY}",
    "MAP {'a': INTERVAL 1 DAY}",
    "{'a': 1, 'b': [1, 2]}::VARIANT",
    "[1::VARIANT]",
    "{}",
    "'101'::BIT",
    "'POINT (1 2)'::GEOMETRY",
    "'12:00:00+02'::TIMETZ",
    "TIMESTAMP_NS '2026-01-01 00:00:00.123456789'",
    "{'a': now(), 'b': 'x'::BLOB}",
    "MAP {'a': now()}",
    "gen_random_uuid()",
    "'a'::ENUM ('a', 'b')",
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("sql"), {"alerts": [alert("one", "FIRING", 5), alert("two", "FIRING", 6)]})


def failure(warehouse: Path, sql: str, seconds: float) -> str:
    with pytest.raises(WarehouseError) as error:
        print_apart(sql=sql, warehouse=str(warehouse), format_="table", limit=None, seconds=seconds)
    return str(error.value)


@pytest.mark.parametrize("name", ["the planner", "printing", *in_proof(["vectors", "one value", "one pair", "rows"])])
def test_a_question_ends_with_its_time_whatever_it_is_at(warehouse: Path, name: str) -> None:
    began = time.monotonic()
    reported, took = failure(warehouse, TAKE_LONG[name], 2), time.monotonic() - began
    assert reported.startswith("no answer within 2 s;") or (name == "printing" and "more than 2GB" in reported)
    assert took < 30


@pytest.mark.parametrize("names", [("one value", "text of rows"), *in_proof([(tuple(TAKE_MUCH),)])], ids=str)
def test_a_question_gets_no_more_than_two_gigabytes(warehouse: Path, names: tuple[str, ...]) -> None:
    program = """
import json, resource, sys
from streaming.history.sql_process import print_apart
from streaming.warehouse.warehouse_error import WarehouseError
for name, sql in json.load(sys.stdin).items():
    try:
        print_apart(sql=sql, warehouse=sys.argv[1], format_="json", limit=None, seconds=60)
    except WarehouseError as error:
        told = str(error)
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if "needs more than 2GB of memory; select less" not in told or kilobytes > 2_300_000:
        print(name, told, kilobytes)
"""
    command = [sys.executable, "-c", program, str(warehouse)]
    ended = subprocess.run(
        command,
        input=json.dumps({name: TAKE_MUCH[name] for name in names}),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert_none(ended.stdout.splitlines())


def test_the_rows_that_come_before_the_end_are_printed(warehouse: Path) -> None:
    result = run(warehouse, "sql", TAKE_LONG["rows"], "--format", "csv", "--timeout", "1")
    assert result.exit_code == 1
    assert result.stdout.startswith("range\n0\n1\n")
    assert result.stderr == "error: no answer within 1 s; select less, or allow more time\n"


def children_of(process_id: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]


def is_alive(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_command_ends_its_worker(number: signal.Signals, warehouse: Path) -> None:
    command = [*COMMAND, "-", "--warehouse", str(warehouse)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(ENDLESS.encode())
        process.stdin.close()
        until = time.monotonic() + 60
        while not (workers := children_of(process.pid)) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1)
        process.send_signal(number)
        assert process.wait(60) != 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    while any(map(is_alive, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert workers
    assert not any(map(is_alive, workers))


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("import os; os.abort()", r"needs more than 2GB of memory; select less \(DuckDB ended by SIGABRT\)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("raise ImportError('no such library')", "could not be started: ImportError: no such library"),
        ("import os; os._exit(0)", "could not be started"),
    ],
)
def test_a_worker_that_ends_by_itself_is_one_sentence(
    program: str, sentence: str, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_process, "_PROGRAM", program)
    with pytest.raises(WarehouseError, match=sentence) as error:
        print_apart(sql="SELECT 1", warehouse=str(warehouse), format_="table", limit=None, seconds=5)
    assert "\n" not in str(error.value)


def test_every_type_is_printed_in_every_form(warehouse: Path) -> None:
    """Each beside a null, and a time without end beside a usual one."""
    values = (*ODD, *PRINTED, "now()")
    columns = ", ".join(f"{value} AS c{number}" for number, value in enumerate(values))
    question = f"SELECT {columns} UNION ALL SELECT {', '.join(['NULL'] * len(values))}"
    (row, nulls) = rows_of(warehouse, "sql", question)
    assert dict(zip(ODD, row.values(), strict=False)) == ODD
    assert set(nulls.values()) == {None}
    assert run(warehouse, "sql", question).exit_code == 0
    assert "1 year 2 months" in run(warehouse, "sql", question, "--format", "csv").stdout
    parquet = pq.read_table(pa.BufferReader(run(warehouse, "sql", question, "--format", "parquet").stdout_bytes))
    assert parquet.column("c0").to_pylist() == ["1 year 2 months", None]


def test_every_type_of_duckdb_can_be_written_as_parquet() -> None:
    types = duckdb.connect().sql("FROM test_all_types()")
    table = with_text(types).to_arrow_table()
    pq.write_table(table, io.BytesIO())
    assert table.column_names == types.columns


def test_the_worker_gets_no_secret(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALANCEWATCH_KAFKA__OPTIONS", '{"sasl.password": "hunter2"}')
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setattr(sql_process, "_PROGRAM", "import os, sys; sys.exit(' '.join(os.environ.values()))")
    assert "hunter2" not in failure(warehouse, "SELECT 1", 1)
    assert "hunter2" in os.environ["AWS_SECRET_ACCESS_KEY"]


def test_a_refused_query_exits_with_1_and_one_sentence(warehouse: Path) -> None:
    """tests/store/test_closed.py has every refusal."""
    (data,) = (warehouse / "alerts").glob("*.parquet")
    before = data.read_bytes()
    result = run(warehouse, "sql", f"EXPLAIN ANALYZE COPY (SELECT 1 AS gone) TO '{data}' (FORMAT parquet)")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert data.read_bytes() == before


def test_tables_are_read_again_while_compaction_deletes_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {"alerts": [alert("one", "FIRING", 5)]}, {"alerts": [alert("two", "FIRING", 6)]})
    table, opened = DeltaTable(f"{tmp_path}/alerts"), list[History]()

    def open_and_compact(*args: Any, **options: Any) -> History:
        opened.append(History(*args, **options))
        if len(opened) == 1:
            table.optimize.compact()
            table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        return opened[-1]

    monkeypatch.setattr(sql_worker, "History", open_and_compact)
    monkeypatch.setattr(sql_worker, "limit_memory", lambda _: None)
    monkeypatch.setattr(signal, "setitimer", lambda *_: None)
    sql_worker.answer(
        sql="SELECT count(*) AS n FROM alerts", warehouse=str(tmp_path), format_="csv", limit=None, seconds=60
    )
    assert capsys.readouterr().out.split() == ["n", "2"]
    assert len(opened) == 2


def test_the_worker_loads_only_what_it_needs() -> None:
    """tests/history/test_start_up.py has the command's side."""
    apart = f"import sys\n{sql_process._PROGRAM.replace('main()', '')}\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", apart], capture_output=True, text=True, timeout=60, check=True)
    assert not {"pandas", "pyspark", "typer", "structlog"} & set(loaded.stdout.split())
