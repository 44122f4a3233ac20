"""The verdicts as metrics: what the tables say at the start, and what each batch adds."""

from pathlib import Path
from typing import Any

from streaming.history.stream import Rows
from streaming.metrics.exporter import Exporter
from streaming.metrics.verdicts import Verdicts
from streaming.queries.warehouse import DeltalakeWriter, append_rows
from tests.metrics.samples import alert, assignment, closed, membership, samples, value
from tests.oncall.stage import START_MS, alert_row

TIMES = {"since": START_MS, "changed_at": START_MS, "last_heartbeat": START_MS}
HEALTH = {"cluster": "c", "broker_name": "b", "unavailable_producers": 2, "producers": 5}


def verdicts() -> tuple[Exporter, Verdicts]:
    exporter = Exporter()
    return exporter, Verdicts(exporter, 10)


def a_batch() -> Rows:
    return {
        "assignments": [assignment("g", 0, "STARVED", **TIMES), assignment("g", 1, "OK", **TIMES)],
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
    append_rows(DeltalakeWriter(tmp_path), a_batch(), "app", 0)
    live, told = verdicts()
    told.hear(a_batch())
    restarted, loaded = verdicts()
    loaded.load(tmp_path, runs_queries=True, tells_people=True)
    before, after = said(live), said(restarted)
    before["incidents"] = {key: count for key, count in before["incidents"].items() if count}
    assert after == before
    assert value(restarted, "balancewatch_unavailable_producers", cluster="c", broker_name="b") == 2


def test_a_process_loads_only_the_alerts_whose_end_it_hears(tmp_path: Path) -> None:
    append_rows(DeltalakeWriter(tmp_path), a_batch(), "app", 0)
    kinds = {}
    for name, does in {"both": (True, True), "run": (True, False), "relay": (False, True)}.items():
        exporter, loaded = verdicts()
        loaded.load(tmp_path, runs_queries=does[0], tells_people=does[1])
        kinds[name] = {dict(key)["kind"] for key in samples(exporter, "balancewatch_incidents")}
    assert kinds == {
        "both": {"starved_queue", "delivery_failed"},
        "run": {"starved_queue"},
        "relay": {"delivery_failed"},
    }


def test_a_first_start_has_no_tables_and_says_nothing(tmp_path: Path) -> None:
    exporter, loaded = verdicts()
    loaded.load(tmp_path / "nothing yet", runs_queries=True, tells_people=True)
    assert samples(exporter, "balancewatch_queues") == {}


def test_a_batch_goes_on_from_what_was_loaded(tmp_path: Path) -> None:
    append_rows(DeltalakeWriter(tmp_path), a_batch(), "app", 0)
    exporter, told = verdicts()
    told.load(tmp_path, runs_queries=True, tells_people=True)
    told.hear({"assignments": [assignment("g", 0, "OK")], "alerts": [alert(f"i-{START_MS}", "RESOLVED")]})
    labels = {"cluster": "c", "consumer_group": "g"}
    assert value(exporter, "balancewatch_queues", **labels, verdict="OK") == 2
    assert value(exporter, "balancewatch_queues", **labels, verdict="STARVED") == 0
    told.hear({"assignments": [closed("g", 0), closed("g", 1)], "memberships": [membership("g", "1:1", "x", "LEFT")]})
    assert samples(exporter, "balancewatch_queues") == {}


def test_quarantine_is_counted_by_topic_and_code_and_both_are_bounded() -> None:
    exporter, told = verdicts()
    rows = [
        {"topic": "rocketmq.pulls", "reasons": ["missing_field: topic", "missing_field: queue_id", "time_ahead: x"]},
        {"topic": "rocketmq.pulls", "reasons": ["missing_field: topic"]},
        {"topic": "made up", "reasons": ["made up too: x"]},
    ]
    told.hear({"quarantine": rows})
    assert value(exporter, "balancewatch_quarantined_total", topic="rocketmq.pulls", reason="missing_field") == 2
    assert value(exporter, "balancewatch_quarantined_total", topic="rocketmq.pulls", reason="time_ahead") == 1
    assert value(exporter, "balancewatch_quarantined_total", topic="other", reason="other") == 1
    assert value(exporter, "balancewatch_rows_written_total", table="quarantine") == 3


def test_our_time_is_that_of_the_newest_clock_event_and_grows_old(monkeypatch: Any) -> None:
    exporter, told = verdicts()
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    clocks = [{"cluster": "c", "newest_ms": 990_000}, {"cluster": "c", "newest_ms": 980_000}]
    told.hear({"clock_heard": [*clocks, {"cluster": "balancewatch_canary", "newest_ms": 1}]})
    assert samples(exporter, "balancewatch_event_time_gap_seconds") == {(("cluster", "c"),): 10}
    monkeypatch.setattr("time.time", lambda: 1_060.0)
    assert value(exporter, "balancewatch_event_time_gap_seconds", cluster="c") == 70


def test_rows_that_are_no_tables_are_not_counted_as_written() -> None:
    exporter, told = verdicts()
    told.hear({"clock_heard": [{"cluster": "c", "newest_ms": 1}], "clock_wanted": [{"cluster": "c"}]})
    assert samples(exporter, "balancewatch_rows_written_total") == {}
