"""What a question to the history loads: importing Spark or pandas takes longer than the answer."""

import json
import subprocess
import sys
from pathlib import Path

from tests.history.warehouse_stage import alert, assignment, delivery, fault, member, write

SCRIPT = """
import contextlib, io, json, sys
from streaming.cli import app

at_start = sorted(sys.modules)
import streaming.history.sql_process
for_sql = sorted(sys.modules)
codes = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        try:
            app(arguments)
        except SystemExit as end:
            codes.append(end.code)
print(json.dumps([at_start, for_sql, sorted(sys.modules), codes]))
"""
"""All commands in one interpreter: what none of them loads stays away from each."""

QUESTIONS = (
    ["alerts"],
    ["alerts", "--current"],
    ["groups"],
    ["brokers"],
    ["clusters", "-o", "json"],
    ["alerts", "--since", "2020-01-01", "--format", "csv"],
    ["faults", "--format", "json"],
    ["assignments", "--at", "now"],
    ["owner", "orders", "broker-a:0"],
    ["members", "--current"],
    ["members", "--format", "parquet"],
    ["deliveries"],
    ["explain"],
    ["explain", "--format", "json"],
    ["sql", "SELECT max(changed_at) AS newest FROM alerts"],
    ["sql"],
    ["whatif", "--group", "billing", "--topic", "orders"],
    ["maintain", "--dry-run"],
)

SLOW = {"pyspark", "delta", "pandas", "py4j", "great_expectations", "uvicorn", "kafka"}


def test_no_question_loads_spark_or_pandas(tmp_path: Path) -> None:
    rows = {
        "alerts": [alert("one", "FIRING", 5)],
        "assignments": [assignment(0, "UNOWNED", 0)],
        "memberships": [member("A@1", "JOINED", 0)],
        "fault_items": [fault("P@1", 0, available=False)],
        "alert_deliveries": [delivery("one", "PENDING", 7)],
    }
    write(tmp_path, rows)
    questions = [[*one, "--warehouse", str(tmp_path)] for one in QUESTIONS]
    command = [sys.executable, "-c", SCRIPT, json.dumps(questions)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    at_start, for_sql, afterwards, codes = json.loads(ended.stdout)
    assert codes == [0] * len(QUESTIONS), ended.stderr
    assert set(afterwards) & SLOW == set()
    assert set(for_sql) & {"duckdb", "deltalake", "numpy", "pyarrow"} == set()
    assert set(at_start) & {"pyspark", "pydantic", "rich"} == set()
