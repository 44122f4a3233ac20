"""The verdicts as metrics: what the tables say at the start, and what each batch adds."""

from pathlib import Path
from typing import Any

import structlog

from streaming.metrics.clusters import MOST_CLUSTERS
from streaming.metrics.exporter import Exporter
from streaming.metrics.verdicts import Verdicts
from streaming.replay.stream import Rows
from streaming.warehouse.writer import append_rows
from tests.metrics.samples import alert, assignment, closed, membership, samples, value
from tests.relay.stage import START_MS, alert_row
from tests.row_writer import RowWriter

TIMES = {"since": START_MS, "changed_at": START_MS, "last_heartbeat": START_MS}
HEALTH = {"cluster": "c", "broker_name": "b", "unavailable_producers": 2, "producers": 5}


def verdicts() -> tuple[Exporter, Verdicts]:
    exporter = Exporter()
    return exporter, Verdicts(exporter, 10)


def clock(newest_ms: int, source: str = "collector", cluster: str = "c") -> dict[str, Any]:
    return {"cluster": cluster, "newest_ms": newest_ms, "source": source}


def a_batch() -> Rows:
    return {
        "assignments": [assignment("g", 0, "UNOWNED", **TIMES), assignment("g", 1, "OK", **TIMES)],
        "memberships": [membership("g", "1:1", "x", **TIMES), membership("g", "2:1", "y", "EXPIRED", **TIMES)],
        "broker_health": [HEALTH | {"changed_at": START_MS}],
        "alerts": [
            alert_row("i", "FIRING", START_MS),
            alert_row("over", "RESOLVED", START_MS),
            alert_row("own", "FIRING", START_MS, kind="delivery_failed", cluster="balancewatch"),
        ],
    }


def said(exporter: Exporter) -> dict[str, Any]:
    names = ("queues", "members", "client_ids", "groups", "unavailable_producers", "producers", "incidents")
    return {name: samples(exporter, f"balancewatch_{name}") for name in names}


def test_a_restart_says_what_the_run_before_it_said(tmp_path: Path) -> None:
    append_rows(RowWriter(tmp_path), a_batch(), "app", 0)
    live, metrics = verdicts()
    metrics.update(a_batch())
    restarted, loaded = verdicts()
    loaded.load(tmp_path, runs_queries=True, notifies=True)
    before, after = said(live), said(restarted)
    before["incidents"] = {key: count for key, count in before["incidents"].items() if count}
    assert after == before
    assert value(restarted, "balancewatch_unavailable_producers", cluster="c", broker_name="b") == 2


def test_a_process_loads_only_the_alerts_whose_end_it_hears(tmp_path: Path) -> None:
    append_rows(RowWriter(tmp_path), a_batch(), "app", 0)
    kinds = {}
    for name, does in {"both": (True, True), "run": (True, False), "relay": (False, True)}.items():
        exporter, loaded = verdicts()
        loaded.load(tmp_path, runs_queries=does[0], notifies=does[1])
        kinds[name] = {dict(key)["kind"] for key in samples(exporter, "balancewatch_incidents")}
    assert kinds == {
        "both": {"starved_queue", "delivery_failed"},
        "run": {"starved_queue"},
        "relay": {"delivery_failed"},
    }


def test_a_first_start_has_no_tables_and_says_nothing(tmp_path: Path) -> None:
    exporter, loaded = verdicts()
    loaded.load(tmp_path / "nothing yet", runs_queries=True, notifies=True)
    assert samples(exporter, "balancewatch_queues") == {}


def test_a_batch_goes_on_from_what_was_loaded(tmp_path: Path) -> None:
    append_rows(RowWriter(tmp_path), a_batch(), "app", 0)
    exporter, metrics = verdicts()
    metrics.load(tmp_path, runs_queries=True, notifies=True)
    metrics.update({"assignments": [assignment("g", 0, "OK")], "alerts": [alert(f"i-{START_MS}", "RESOLVED")]})
    labels = {"cluster": "c", "consumer_group": "g"}
    assert value(exporter, "balancewatch_queues", **labels, verdict="OK") == 2
    assert value(exporter, "balancewatch_queues", **labels, verdict="UNOWNED") == 0
    metrics.update(
        {"assignments": [closed("g", 0), closed("g", 1)], "memberships": [membership("g", "1:1", "x", "LEFT")]}
    )
    assert samples(exporter, "balancewatch_queues") == {}


def test_quarantine_is_counted_by_topic_and_code_and_both_are_bounded() -> None:
    exporter, metrics = verdicts()
    rows = [
        {"topic": "rocketmq.pulls", "reasons": ["missing_field: topic", "missing_field: queue_id", "time_ahead: x"]},
        {"topic": "rocketmq.pulls", "reasons": ["missing_field: topic"]},
        {"topic": "made up", "reasons": ["made up too: x"]},
    ]
    metrics.update({"quarantine": rows})
    assert value(exporter, "balancewatch_quarantined_total", topic="rocketmq.pulls", reason="missing_field") == 2
    assert value(exporter, "balancewatch_quarantined_total", topic="rocketmq.pulls", reason="time_ahead") == 1
    assert value(exporter, "balancewatch_quarantined_total", topic="other", reason="other") == 1
    assert value(exporter, "balancewatch_rows_written_total", table="quarantine") == 3
    assert value(exporter, "balancewatch_quarantined_messages_total", topic="rocketmq.pulls") == 2
    assert value(exporter, "balancewatch_quarantined_messages_total", topic="other") == 1


def test_our_time_is_that_of_the_newest_clock_event_and_grows_old(monkeypatch: Any) -> None:
    exporter, metrics = verdicts()
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    metrics.update({"assignments": [assignment("g", 0, "OK")]})
    metrics.update({"clock_heard": [clock(990_000), clock(980_000), clock(1, cluster="balancewatch_canary")]})
    assert samples(exporter, "balancewatch_event_time_lag_seconds") == {(("cluster", "c"),): 10}
    monkeypatch.setattr("time.time", lambda: 1_060.0)
    assert value(exporter, "balancewatch_event_time_lag_seconds", cluster="c") == 70


def test_a_dead_collector_shows_though_run_keeps_the_time(monkeypatch: Any) -> None:
    exporter, metrics = verdicts()
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    metrics.update({"assignments": [assignment("g", 0, "OK")]})
    metrics.update({"clock_heard": [clock(700_000)]})
    metrics.update({"clock_heard": [clock(999_000, source="run")]})
    assert value(exporter, "balancewatch_event_time_lag_seconds", cluster="c") == 300


def test_a_clock_from_the_future_hides_no_lag(monkeypatch: Any) -> None:
    """One a little ahead is as new as can be."""
    exporter, metrics = verdicts()
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    metrics.update({"assignments": [assignment("g", 0, "OK")]})
    metrics.update({"clock_heard": [clock(900_000), clock(1_000_000 + 3_600_000)]})
    assert value(exporter, "balancewatch_event_time_lag_seconds", cluster="c") == 100
    metrics.update({"clock_heard": [clock(1_002_000)]})
    assert value(exporter, "balancewatch_event_time_lag_seconds", cluster="c") == 0


def test_a_restart_knows_how_old_its_time_is_before_a_clock_is_heard(tmp_path: Path, monkeypatch: Any) -> None:
    append_rows(RowWriter(tmp_path), a_batch(), "app", 0)
    monkeypatch.setattr("time.time", lambda: START_MS / 1000 + 400)
    exporter, loaded = verdicts()
    loaded.load(tmp_path, runs_queries=True, notifies=True)
    assert value(exporter, "balancewatch_event_time_lag_seconds", cluster="c") == 400


def test_a_table_that_cannot_be_read_is_said_and_costs_no_other(tmp_path: Path) -> None:
    append_rows(RowWriter(tmp_path), a_batch(), "app", 0)
    for entry in (tmp_path / "memberships" / "_delta_log").glob("*.json"):
        entry.write_text("no log")
    exporter, loaded = verdicts()
    with structlog.testing.capture_logs() as lines:
        loaded.load(tmp_path, runs_queries=True, notifies=True)
    assert [(line["log_level"], line["table"]) for line in lines if "table" in line] == [("error", "memberships")]
    labels = {"cluster": "c", "consumer_group": "g"}
    assert value(exporter, "balancewatch_queues", **labels, verdict="UNOWNED") == 1


def test_made_up_clusters_give_their_names_back_when_they_are_gone(monkeypatch: Any) -> None:
    exporter, metrics = verdicts()
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    for number in range(2 * MOST_CLUSTERS):
        here = {"cluster": f"made up {number}"}
        metrics.update(
            {"assignments": [assignment("g", 0, "OK", **here)], "alerts": [alert(f"i{number}", "FIRING", **here)]}
        )
        metrics.update({"clock_heard": [clock(990_000, cluster=f"made up {number}")]})
        gone = [closed("g", 0) | here]
        metrics.update({"assignments": gone, "alerts": [alert(f"i{number}", "RESOLVED", **here)]})
    metrics.update({"assignments": [assignment("g", 0, "OK")]})
    assert value(exporter, "balancewatch_groups", cluster="c") == 1
    assert value(exporter, "balancewatch_series_limited", kind="clusters") == 0
    for name in ("groups", "incidents", "event_time_lag_seconds"):
        assert len(samples(exporter, f"balancewatch_{name}")) <= MOST_CLUSTERS


def test_clocks_alone_take_no_names() -> None:
    exporter, metrics = verdicts()
    metrics.update({"clock_heard": [clock(1, cluster=f"made up {number}") for number in range(3 * MOST_CLUSTERS)]})
    metrics.update({"assignments": [assignment("g", 0, "OK")]})
    assert value(exporter, "balancewatch_groups", cluster="c") == 1
    assert samples(exporter, "balancewatch_event_time_lag_seconds") == {}


def test_rows_that_are_no_tables_are_not_counted_as_written() -> None:
    exporter, metrics = verdicts()
    metrics.update({"clock_heard": [clock(1)], "clock_needed": [{"cluster": "c"}]})
    assert samples(exporter, "balancewatch_rows_written_total") == {}
