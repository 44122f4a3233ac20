"""What the kernel and DuckDB's settings keep a question from, were all SQL let pass."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.history.confinement import hold_files
from streaming.store import store
from streaming.store.store import History, WarehouseError
from streaming.warehouse.warehouse_error import FilesGoneError
from tests.history.hostile import HOSTILE
from tests.history.warehouse_stage import alert, write
from tests.offenders import assert_none
from tests.store.test_question import contents, places

OPEN = """
import json, sys
from pathlib import Path
from streaming.history import confinement
from streaming.store import store
store.check_question = lambda *_: None
held = []
history = store.History(Path(sys.argv[1]), seal=lambda paths: held.append(confinement.hold_files(paths)))
answered = []
for sql in json.load(sys.stdin):
    try:
        answered.append([sql, history.rows(sql)])
    except Exception:
        pass
rows = [history.rows("SELECT count(*) AS n FROM alerts"), history.rows("SELECT 1 AS n")]
print(json.dumps([held, rows, answered], default=str))
"""
"""A sealed process that asks all there is on stdin, unchecked."""


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return write(tmp_path / "warehouse", {"alerts": [alert("one", "FIRING", 5)]})


def in_a_process(program: str, *arguments: str, given: str = "") -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=True).stdout


def test_unchecked_sql_writes_no_file_and_reads_the_tables_own_alone(warehouse: Path) -> None:
    files = places(warehouse)
    before = contents(warehouse.parent)
    asked = [sql.format(**files) for sql in HOSTILE if "{" in sql]
    held, rows, answered = json.loads(in_a_process(OPEN, str(warehouse), given=json.dumps(asked)))
    if held == [False]:
        pytest.skip("this kernel has no Landlock")
    assert rows == [[{"n": 1}], [{"n": 1}]]
    assert contents(warehouse.parent) == before
    others = [str(path) for name, path in files.items() if name != "data"]
    nothing = ([], [{"n": 0}])
    assert_none(
        (sql, found)
        for sql, found in answered
        if any(path in sql for path in others) and found not in nothing and "operations are disabled" not in str(found)
    )


def test_duckdb_by_itself_opens_no_other_file_of_the_warehouse(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "check_question", lambda *_: None)
    files = places(warehouse)
    history = History(warehouse, seal=lambda _: None)
    for name in ("log", "other", "secret"):
        for source in ("read_text('{}')", "read_csv('{}')", "'{}'"):
            with pytest.raises(WarehouseError, match=r"Permission Error|does not exist"):
                history.query(f"FROM {source.format(files[name])}")
    with pytest.raises(WarehouseError, match="configuration has been locked"):
        history.query("SET enable_external_access = true")
    assert history.rows("SELECT count(*) AS n FROM alerts") == [{"n": 1}]


@pytest.mark.parametrize("name", ["with blank", "it's", "naïve", "a#b?"])
def test_a_sealed_warehouse_may_have_any_name(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, {"alerts": [alert("one", "FIRING", 5)]})
    held, rows, _ = json.loads(in_a_process(OPEN, str(tmp_path / name), given="[]"))
    assert rows[0] == [{"n": 1}], held


def vanish(warehouse: Path) -> None:
    for file in (warehouse / "alerts").glob("*.parquet"):
        file.unlink()


def test_files_that_go_away_once_it_is_sealed_are_told_apart(warehouse: Path) -> None:
    history = History(warehouse, seal=lambda _: None)
    vanish(warehouse)
    for parse_options in (history.rows, history.stream):
        with pytest.raises(FilesGoneError):
            parse_options("FROM alerts")


def test_files_that_go_away_before_it_is_sealed_are_told_apart(warehouse: Path) -> None:
    with pytest.raises(FilesGoneError):
        History(warehouse, seal=lambda _: vanish(warehouse))


def test_the_seal_lets_a_process_read_what_is_named_and_write_nothing(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for file in (own, other):
        file.write_text("text")
    program = f"""
from pathlib import Path
from streaming.history.confinement import hold_files
import socket, subprocess
tries = {{
    "read": lambda: Path({str(own)!r}).read_text(),
    "read another": lambda: Path({str(other)!r}).read_text(),
    "write": lambda: Path({str(own)!r}).write_text("x"),
    "make": lambda: Path({str(tmp_path / "new")!r}).write_text("x"),
    "remove": lambda: Path({str(own)!r}).unlink(),
    "environment": lambda: Path("/proc/self/environ").read_text(),
    "program": lambda: subprocess.run(["/bin/true"]),
    "network": lambda: socket.create_connection(("127.0.0.1", 9)),
}}
held = hold_files([{str(own)!r}])
for name, attempt in tries.items():
    try:
        attempt()
    except PermissionError:
        continue
    except OSError:
        pass
    print(name)
print(held)
"""
    *done, held = in_a_process(program).split("\n")[:-1]
    if held == "False":
        pytest.skip("this kernel has no Landlock")
    assert set(done) - {"network"} == {"read"}  # a kernel before 6.7 holds no connections


def test_the_seal_misses_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        hold_files([str(tmp_path / "nowhere")])
