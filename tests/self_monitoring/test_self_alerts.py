"""Alerts about ourselves: the rows of their steps, and which are open after a restart, a failed write, a set clock."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.tables import ALERTS
from streaming.queries.rows import Row
from streaming.relay.notice import read_notice
from streaming.self_monitoring.self_alerts import SelfAlert, SelfAlerts, read_open
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from udfs.alerts.alert import alert_id

NOW_MS = 1_750_000_000_000
LABELS = {"cluster": "balancewatch", "query": "balance"}
LOST = SelfAlert("data_loss", "error", "data_loss", LABELS, "Lost.", "Look.", {"gone": 5})
ROOMS = Path(__file__).parents[2] / "streaming"


def noted(alerts: SelfAlerts, row: Row) -> Row:
    alerts.note_row(row)
    return row


def test_its_rows_are_those_of_one_incident_from_its_begin_to_its_end() -> None:
    alerts = SelfAlerts()
    rows = [noted(alerts, alerts.open(LOST, NOW_MS))]
    (known,) = alerts
    rows.append(noted(alerts, alerts.update(known, replace(LOST, summary="More."), NOW_MS + 7)))
    (known,) = alerts
    rows.append(noted(alerts, alerts.resolve(known, NOW_MS + 9)))
    assert [*alerts] == []
    assert {row["incident_id"] for row in rows} == {f"{alert_id('data_loss', LABELS)}-{NOW_MS}"}
    assert {(row["started_at"], row["fired_at"], row["severity"]) for row in rows} == {(NOW_MS, NOW_MS, "error")}
    assert [(row["state"], row["reason"], row["changed_at"] - NOW_MS, row["summary"]) for row in rows] == [
        ("FIRING", "hold_over", 0, "Lost."),
        ("FIRING", "figures_changed", 7, "More."),
        ("RESOLVED", "recovered", 9, "Resolved: More."),
    ]
    assert rows[2]["advice"] == "Nothing to do."
    assert all(json.loads(row["evidence"]) == {"gone": 5} and json.loads(row["labels"]) == LABELS for row in rows)
    assert rows[0].keys() == {column.name for column in ALERTS.columns} - {"batch_id"}
    assert read_notice(rows[0]).labels == LABELS


def test_its_evidence_is_written_whole() -> None:
    many = [*range(1_000)]
    assert json.loads(SelfAlerts().open(replace(LOST, evidence={"many": many}), NOW_MS)["evidence"]) == {"many": many}


def test_a_step_that_was_not_written_has_not_happened() -> None:
    alerts = SelfAlerts()
    alerts.open(LOST, NOW_MS)
    assert [*alerts] == []
    alerts.note_row(alerts.open(LOST, NOW_MS))
    (known,) = alerts
    alerts.resolve(known, NOW_MS + 1)
    assert [*alerts] == [known]


def test_rows_are_in_the_order_of_their_times_though_the_clock_is_set_back() -> None:
    alerts = SelfAlerts()
    alerts.note_row(alerts.open(LOST, NOW_MS))
    (known,) = alerts
    assert alerts.update(known, LOST, NOW_MS - 3_600_000)["changed_at"] == NOW_MS + 1
    assert alerts.resolve(known, NOW_MS - 3_600_000)["changed_at"] == NOW_MS + 1


def test_a_restart_knows_what_is_open_of_its_kind_and_leaves_out_what_cannot_be_used(tmp_path: Path) -> None:
    def has_query(alert: SelfAlert) -> None:
        assert alert.labels["query"]

    assert [*read_open(tmp_path, "data_loss", has_query)] == []
    alerts = SelfAlerts()
    other = replace(LOST, labels={"cluster": "balancewatch", "query": "other"})
    rows = [noted(alerts, alerts.open(alert, NOW_MS)) for alert in (LOST, other)]
    over = alerts.find(query="other")
    assert over is not None
    rows.append(alerts.resolve(over, NOW_MS + 5))
    rows.append(alerts.open(replace(LOST, kind="data_quality"), NOW_MS))
    rows.append(alerts.open(replace(LOST, labels={"cluster": "c"}), NOW_MS))
    rows.append(alerts.open(LOST, NOW_MS) | {"incident_id": "x", "labels": json.dumps({"query": "no cluster"})})
    append_rows(DeltalakeWriter(tmp_path), {"alerts": rows}, "app", 0)
    (known,) = read_open(tmp_path, "data_loss", has_query)
    assert (known.alert, known.started_ms, known.changed_ms) == (LOST, NOW_MS, NOW_MS)


@pytest.mark.parametrize("column", ["started_at", "fired_at"])
def test_rows_of_alerts_are_built_in_one_place(column: str) -> None:
    builders = {
        str(path.relative_to(ROOMS)) for path in ROOMS.rglob("*.py") if f'"{column}": incident' in path.read_text()
    }
    assert builders == {"queries/rows.py"}
    assert not [path for path in (ROOMS / "relay").glob("*.py") if f'"{column}":' in path.read_text()]
