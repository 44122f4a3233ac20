"""A row that breaks its table's contract, as a damaged or forged file has it, hides none of the others."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from conf.settings import Settings
from schemas.tables import ALERT_DELIVERIES, ALERTS, ASSIGNMENTS, MEMBERSHIPS, QUALITY, SILENCES, TABLES, Table
from streaming.board.pages.quality import read_failing
from streaming.board.web.tables import Tables
from streaming.cli import app
from streaming.history.incident_story import read_story
from streaming.quality.inspector import QualityAlerts, read_open_topics
from streaming.replay.replay_command import Asked, read_pages
from streaming.self_monitoring import data_loss
from streaming.self_monitoring.self_alerts import read_open
from streaming.store.alerts import read_current_alerts
from streaming.store.store import History
from streaming.warehouse.tables import table_path
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.history.warehouse_stage import assignment, member
from tests.maintenance.rows import FILLER
from tests.relay.stage import START_MS, alert_row
from tests.relay.test_unreadable_rows import BAD_MATCHERS, ENDLESS_MS, PENDING, SILENCE, add, blank
from tests.support.row_writer import RowWriter
from udfs.alerts.self_kinds import DATA_LOSS

ALERT: dict[str, Any] = {**alert_row("x", "FIRING", START_MS), "labels": "{}"}
SAID = "unreadable rows skipped table=alerts rows=1"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    append_rows(RowWriter(tmp_path), {"alerts": [alert_row("m", "FIRING", START_MS)]}, "app", 0)
    return tmp_path


@pytest.mark.parametrize("name", [one.name for one in ALERTS.columns if one.is_required])
def test_a_null_where_the_contract_has_none(warehouse: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    blank(warehouse, ALERTS, ALERT, name)
    with caplog.at_level(logging.WARNING):
        assert [row["alert_id"] for row in read_current_alerts(warehouse)] == ["m"]
    assert caplog.messages == [SAID]


@pytest.mark.parametrize("name", ["changed_at", "fired_at"])
def test_a_time_that_python_has_no_value_for(warehouse: Path, name: str) -> None:
    add(warehouse, ALERTS, ALERT | {name: ENDLESS_MS})
    assert [row["alert_id"] for row in read_current_alerts(warehouse)] == ["m"]


def test_a_row_of_nulls_in_any_table_is_in_no_view_of_it(warehouse: Path) -> None:
    for table in TABLES.values():
        blank(warehouse, table, {one.name: FILLER[one.type] for one in table.columns})
    history = History(warehouse)
    assert set(history.left_out) == set(TABLES)
    for table in TABLES.values():
        expected = 1 if table is ALERTS else 0
        for rows in (table.name, f"{table.name}_now", history.between(table, 0), history.newest(table, START_MS)):
            assert history.rows(f"SELECT count(*) AS n FROM {rows}") == [{"n": expected}]


def test_what_comes_while_one_looks_is_left_out_and_said_once(
    warehouse: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = Tables(warehouse)
    assert tables.look().history is not None
    with caplog.at_level(logging.WARNING):
        blank(warehouse, ALERTS, ALERT, "summary")
        seen = tables.look(at_once=True)
        add(warehouse, ALERTS, ALERT)
        seen = tables.look(at_once=True)
    assert seen.history is not None
    assert seen.history.rows("SELECT count(*) AS n FROM alerts") == [{"n": 2}]
    assert caplog.messages == [SAID]


OF_QUALITY = {"kind": "data_quality", "labels": '{"cluster": "c", "topic": "t"}', "evidence": '{"failed": []}'}
OF_LOSS = {
    "kind": "data_loss",
    "labels": '{"cluster": "c", "query": "assignments"}',
    "evidence": '{"batch_id": 1, "is_committed": true, "checkpoint_id": "c"}',
}


@pytest.mark.parametrize("name", ["incident_id", "labels", "changed_at", "evidence"])
def test_run_starts_though_a_row_of_its_own_cannot_be_read(warehouse: Path, name: str) -> None:
    """Losses and quality alerts that are open are read before the query begins."""
    for number, row in enumerate((OF_QUALITY, OF_LOSS)):
        blank(warehouse, ALERTS, {**ALERT, **row}, name)
        add(warehouse, ALERTS, {**ALERT, **row, "incident_id": f"good-{number}"})
    assert open_in(warehouse) == ("assignments", "t")


def open_in(warehouse: Path) -> tuple[str, str]:
    """The query of the one data loss that is open, and the topic of the one quality alert."""
    (lost,) = read_open(warehouse, DATA_LOSS, data_loss._identity)
    (bad,) = read_open_topics(Settings.load(paths={"warehouse": warehouse}))
    return lost.alert.labels["query"], bad.alert.labels["topic"]


NOT_OF_QUALITY = [
    ("labels", "{"),
    ("labels", "[]"),
    ("labels", '{"cluster": "c"}'),
    ("labels", '{"topic": 5}'),
    ("evidence", "["),
    ("evidence", "[]"),
    ("evidence", '{"failed": 5}'),
    ("evidence", '{"failed": [{}]}'),
]
NOT_OF_LOSS = [("labels", "{"), ("labels", "{}"), ("evidence", "["), ("evidence", "[]"), ("evidence", "{}")]
NOT_OF_LOSS += [("evidence", json.dumps(json.loads(OF_LOSS["evidence"]) | {"batch_id": one})) for one in ("x", 1e99)]


def test_what_run_reports_of_itself_ends_though_a_row_of_it_says_something_else(warehouse: Path) -> None:
    for number, (name, text) in enumerate(NOT_OF_QUALITY):
        add(warehouse, ALERTS, {**ALERT, **OF_QUALITY, "incident_id": f"q-{number}", name: text})
    for number, (name, text) in enumerate(NOT_OF_LOSS):
        add(warehouse, ALERTS, {**ALERT, **OF_LOSS, "incident_id": f"l-{number}", name: text})
    settings, writer = Settings.load(paths={"warehouse": warehouse}), DeltalakeWriter(warehouse)
    assert QualityAlerts(settings.quality, read_open_topics(settings)).end_all(START_MS) == []
    data_loss.DataLoss(settings, writer).progress("assignments", START_MS + 10**10)
    assert {row["state"] for row in read_current_alerts(warehouse)} == {"FIRING"}


@pytest.mark.parametrize("matchers", BAD_MATCHERS)
def test_an_incident_is_explained_beside_a_silence_of_another_form(warehouse: Path, matchers: str) -> None:
    add(warehouse, SILENCES, SILENCE | {"matchers": matchers})
    add(warehouse, SILENCES, SILENCE | {"silence_id": "good"})
    history = History(warehouse)
    (incident,) = {row["incident_id"] for row in history.rows("SELECT incident_id FROM alerts")}
    assert [one["silence_id"] for one in read_story(history, incident).silences] == ["good"]


def test_a_list_that_names_no_queue_and_no_place_hides_no_page(warehouse: Path) -> None:
    names = [None, "", "x", "b:", ":1", "b:x", "b:-1", "b:1"]
    add(warehouse, ALERTS, ALERT | {"incident_id": "listed", "queues": names})
    story = read_story(History(warehouse), "listed")
    assert (story.queues, story.steps[0]["queues"]) == (("b:1",), ("b:1",))
    row = {"suite": "t", "expectation": "e", "success": False, "evaluated": 1, "validated_at": START_MS}
    add(warehouse, QUALITY, row | {"observed": [None, "5"], "sample_offsets": ["t-0@1", None]})
    printed = CliRunner().invoke(app, ["quality", "--warehouse", str(warehouse)], catch_exceptions=False)
    assert "0 of 1 expectations" in printed.stdout
    add(warehouse, ASSIGNMENTS, assignment(0, "OK", 0, observed_owners=[None, "A@1"]))
    add(warehouse, MEMBERSHIPS, member("A@1", "JOINED", 0, topics=[None, "orders"]))
    for asked in (["assignments"], ["members"], ["owner", "orders", "broker-a:0"]):
        printed = CliRunner().invoke(app, [*asked, "--warehouse", str(warehouse)], catch_exceptions=False)
        assert "A@1" in printed.stdout
    (failing,) = read_failing(History(warehouse))
    assert (failing["observed"], failing["sample_offsets"]) == (["5"], ["t-0@1"])


@pytest.mark.parametrize("table", [ALERTS, ALERT_DELIVERIES], ids=lambda one: one.name)
def test_run_starts_and_a_replay_compares_beside_a_file_that_is_damaged(warehouse: Path, table: Table) -> None:
    kinds = ({**ALERT, **OF_QUALITY, "incident_id": "q"}, {**ALERT, **OF_LOSS, "incident_id": "l"})
    for row in kinds:
        add(warehouse, ALERTS, row)
    add(warehouse, ALERT_DELIVERIES, PENDING)
    before = set(DeltaTable(table_path(warehouse, table.name)).file_uris())
    append_rows(RowWriter(warehouse), {table.name: list(kinds) if table is ALERTS else [PENDING]}, "app2", 0)
    (file,) = set(DeltaTable(table_path(warehouse, table.name)).file_uris()) - before
    Path(file).write_bytes(b"\0" * Path(file).stat().st_size)
    assert open_in(warehouse) == ("assignments", "t")
    assert [page["incident_id"] for page in read_pages(warehouse, Asked(0, START_MS + 1))] == [f"m-{START_MS}"]
