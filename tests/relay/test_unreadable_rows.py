"""One unreadable row in each table that the relay reads: it is skipped and logged, and receivers are notified."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from structlog.testing import capture_logs
from typer.testing import CliRunner

from schemas.tables import ACKNOWLEDGEMENTS, ALERT_DELIVERIES, ALERTS, SILENCES, Table
from streaming.cli import app
from streaming.relay.notice import read_notice, record_of
from streaming.relay.tables import RelayTables
from streaming.warehouse import readable_rows as readable
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import open_table, table_path
from tests.relay.fakes import FakeServer
from tests.relay.stage import START_MS, alert_row
from tests.relay.test_relay import Scene, notified, settings_of
from udfs.alerts.silence import Silence

ENDLESS_MS = 300_000_000_000_000
"""In a year that Python has no datetime for."""

SILENCE: dict[str, Any] = {
    "silence_id": "bad",
    "matchers": '{"cluster": ["*"]}',
    "created_by": "ada",
    "comment": "why",
    "starts_at": 0,
    "ends_at": 9_000_000_000_000,
    "changed_at": START_MS,
}
WORD: dict[str, Any] = {
    "incident_id": f"m-{START_MS}",
    "acknowledged_by": "ada",
    "note": "on it",
    "acknowledged_at": START_MS,
}
PENDING = dict(record_of(read_notice(alert_row("m", "PENDING", START_MS)), "PENDING", START_MS, receiver="hook"))
ALERT = {**alert_row("x", "FIRING", START_MS), "labels": "{}"}

each_table = pytest.mark.parametrize(
    ("table", "row", "time"),
    [
        (SILENCES, SILENCE, "ends_at"),
        (ACKNOWLEDGEMENTS, WORD, "acknowledged_at"),
        (ALERT_DELIVERIES, PENDING, "delivered_at"),
        (ALERTS, ALERT, "changed_at"),
    ],
    ids=lambda one: getattr(one, "name", ""),
)

BAD_MATCHERS = ["not json", "[]", "{}", '{"cluster": 5}', '{"cluster": "prod"}', '{"cluster": [5]}', '{"who?": ["*"]}']


@pytest.fixture
def scene(tmp_path: Path, hook: FakeServer) -> Scene:
    readable._said.clear()
    scene = Scene(tmp_path, settings_of(hook.url))
    with scene.relay(lambda: START_MS - 1) as relay:
        relay.finish(20.0)
    return scene


def add(warehouse: Path, table: Table, row: dict[str, Any]) -> None:
    write_deltalake(open_table(warehouse, table), arrow_table([row], table, 0), mode="append")


def blank(warehouse: Path, table: Table, row: dict[str, Any], *columns: str) -> None:
    """Append the row, then put null where the contract has none, as a file that was damaged or forged has it."""
    before = set(open_table(warehouse, table).file_uris())
    add(warehouse, table, row)
    written = DeltaTable(table_path(warehouse, table.name))
    (file,) = set(written.file_uris()) - before
    size = Path(file).stat().st_size
    rows = pq.read_table(file)
    for name in columns or rows.column_names:
        field = rows.schema.field(name)
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, pa.field(name, field.type), pa.nulls(rows.num_rows, field.type))
    pq.write_table(rows, file)
    commit = Path(table_path(warehouse, table.name)) / "_delta_log" / f"{written.version():020}.json"
    commit.write_text(commit.read_text().replace(f'"size":{size}', f'"size":{Path(file).stat().st_size}'))


def reports(scene: Scene, hook: FakeServer, table: Table) -> None:
    """Alerts are notified, silences and acknowledgements are used, and the row is logged once."""
    RelayTables(scene.warehouse).add_silence(
        Silence("good", {"cluster": ("quiet",)}, "ada", "why", 0, 9_000_000_000_000), START_MS
    )
    RelayTables(scene.warehouse).append(ACKNOWLEDGEMENTS, [WORD])
    scene.write(alert_row("m", "FIRING", START_MS), alert_row("q", "FIRING", START_MS, cluster="quiet"))
    with capture_logs() as logs:
        scene.deliver()
        scene.deliver()
    assert notified(hook) == ["m firing"]
    assert [one["table"] for one in logs if one["event"] in ("unreadable row skipped", "unreadable file skipped")] == [
        table.name
    ]


@pytest.mark.parametrize("matchers", BAD_MATCHERS)
def test_a_silence_of_another_form_keeps_nothing_quiet_and_is_listed(
    scene: Scene, hook: FakeServer, matchers: str
) -> None:
    add(scene.warehouse, SILENCES, SILENCE | {"matchers": matchers})
    reports(scene, hook, SILENCES)
    listed = CliRunner().invoke(
        app, ["silence", "list", "--format", "json", "--warehouse", str(scene.warehouse)], catch_exceptions=False
    )
    rows = json.loads(listed.stdout)
    assert {row["silence_id"]: row["state"] for row in rows} == {"good": "active", "bad": "unreadable"}
    assert matchers in next(row["match"] for row in rows if row["silence_id"] == "bad")


@each_table
@pytest.mark.parametrize("kept", [("delivery_key",), ("delivery_key", "incident_id", "silence_id")], ids=len)
def test_a_row_of_nothing_but_nulls(
    scene: Scene, hook: FakeServer, table: Table, row: dict[str, Any], time: str, kept: tuple[str, ...]
) -> None:
    blank(scene.warehouse, table, row, *(name for name in table.names if name not in kept))
    reports(scene, hook, table)


@each_table
def test_a_time_that_python_has_no_value_for(
    scene: Scene, hook: FakeServer, table: Table, row: dict[str, Any], time: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` writes none; a row that was forged or damaged may withhold one."""
    monkeypatch.setattr("streaming.warehouse.rows.LAST_MS", ENDLESS_MS)
    add(scene.warehouse, table, row | {time: ENDLESS_MS})
    reports(scene, hook, table)


@pytest.mark.parametrize(
    ("table", "row"),
    [(SILENCES, SILENCE), (ACKNOWLEDGEMENTS, WORD), (ALERT_DELIVERIES, PENDING)],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_file_that_is_no_parquet_any_more(scene: Scene, hook: FakeServer, table: Table, row: dict[str, Any]) -> None:
    before = set(open_table(scene.warehouse, table).file_uris())
    add(scene.warehouse, table, row)
    (file,) = set(DeltaTable(table_path(scene.warehouse, table.name)).file_uris()) - before
    Path(file).write_bytes(b"\0" * Path(file).stat().st_size)
    reports(scene, hook, table)


def test_a_time_yet_to_come_makes_no_history_of_what_follows(tmp_path: Path, hook: FakeServer) -> None:
    """The first relay leaves alone what was over by the newest row; not all that ends in a thousand years."""
    scene = Scene(tmp_path, settings_of(hook.url))
    scene.write(ALERT | {"changed_at": 30_000_000_000_000, "state": "PENDING"})
    scene.deliver()
    scene.write(alert_row("m", "FIRING", START_MS + 1), alert_row("m", "RESOLVED", START_MS + 10**10))
    scene.deliver()
    assert notified(hook) == ["m firing", "m resolved"]
