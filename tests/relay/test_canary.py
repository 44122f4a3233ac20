"""The canary passes the real rules, reaches only its internal receiver, and its absence is an alert."""

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from conf.oncall import CANARY
from schemas.decode import decode
from streaming.cli import app
from streaming.relay.canary import CanaryReceiver, end_event, twin_events
from streaming.relay.notice import Now, read_notice, record_of
from streaming.relay.own_alerts import RelayAlerts
from streaming.warehouse.writer import append_rows
from tests.relay.notices import notice
from tests.relay.stage import BAD_KEY, START_MS, Scripted, Stage, alert_row
from tests.support.engine import Stream
from tests.support.row_writer import RowWriter, read_alerts
from udfs.alerts.routing import Route
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.silence import Silence

MINUTE_MS = 60_000


def sung(injections: int, every_ms: int = 5 * MINUTE_MS) -> list[dict[str, Any]]:
    """The alert rows of so many injections, each ended after half a minute."""
    stream, rows = Stream(), []
    for number in range(injections):
        now_ms = START_MS + number * every_ms
        for events in (list(twin_events(now_ms)), [end_event(now_ms + 30_000)]):
            rows += stream.feed(events).get("alerts", [])
    return rows


def test_its_events_keep_the_contract() -> None:
    for topic, event in [*twin_events(START_MS), end_event(START_MS)]:
        assert decode(topic, msgspec.json.encode(event), START_MS)[1] == []


def test_each_injection_is_one_alert_that_fires_at_its_own_tick_and_ends_with_its_group() -> None:
    rows = sung(3)
    notified = [(row["kind"], row["state"], row["reason"], row["changed_at"] - START_MS) for row in rows]
    assert notified == [
        step
        for number in range(3)
        for step in (
            ("duplicate_client_id", "FIRING", "hold_over", number * 5 * MINUTE_MS),
            ("duplicate_client_id", "RESOLVED", "group_deleted", number * 5 * MINUTE_MS + 30_000),
        )
    ]
    assert len({row["alert_id"] for row in rows}) == 3


def test_one_whose_end_was_never_notified_ends_with_the_next() -> None:
    stream = Stream()
    for number in range(2):
        rows = stream.feed(list(twin_events(START_MS + number * 5 * MINUTE_MS)))["alerts"]
    assert [row["reason"] for row in rows] == ["group_deleted", "hold_over"]


@pytest.mark.parametrize("has_receiver", [True, False])
def test_only_its_own_receiver_is_notified(has_receiver: bool) -> None:
    pager, nest = Scripted(), Scripted()
    stage = Stage({"pager": pager, **({CANARY: nest} if has_receiver else {})}, routes=[Route("all", ("pager",))])
    stage.write(*sung(1))
    stage.put("real", run=5)
    assert pager.notified() == ["real firing"]
    assert len(nest.notified()) == (2 if has_receiver else 0)


def test_its_arrival_is_logged_with_its_latency() -> None:
    stage = Stage({CANARY: (nest := Scripted())})
    stage.write(*sung(1))
    stage.run(5)
    with capture_logs() as logs:
        for _, send, _ in nest.calls:
            assert CanaryReceiver().send(send.notices, START_MS + 7_000).verdict == "DELIVERED"
    assert [(line["event"], line["seconds"]) for line in logs] == [("canary delivered", 7.0)]


def steps(book: RelayAlerts, *at_ms: int) -> list[tuple[int, str]]:
    """(when, state) of what the book says of the canary at these moments."""
    found = []
    for now_ms in at_ms:
        for row in book.rows([], {}, Now(now_ms, now_ms)):
            found.append((now_ms, row["state"]))
            book.note(read_notice(row))
    return found


def test_one_that_does_not_arrive_is_an_alert_until_the_next_does() -> None:
    book = RelayAlerts(MINUTE_MS, lost_after_ms=660_000)
    assert steps(book, 0, 659_999, 660_000, 700_000) == [(660_000, "FIRING")]
    book.note_canary(800_000)
    assert steps(book, 800_001, 1_459_999, 1_460_000) == [(800_001, "RESOLVED"), (1_460_000, "FIRING")]
    assert steps(RelayAlerts(MINUTE_MS), 0, 10**12) == [], "where none is expected"


def test_one_that_was_lost_before_a_restart_is_lost_until_one_arrives() -> None:
    before, after = RelayAlerts(MINUTE_MS, lost_after_ms=10), RelayAlerts(MINUTE_MS, lost_after_ms=10_000)
    before.rows([], {}, Now(0, 0))
    (row,) = before.rows([], {}, Now(10, 10))
    after.note(read_notice(row))
    assert steps(after, 20, 30) == []
    after.note_canary(40)
    assert steps(after, 50) == [(50, "RESOLVED")]


def arrived(warehouse: Path, *seconds: float) -> None:
    """Canaries injected a minute apart until now, delivered after so many seconds."""
    now_ms = time.time_ns() // 1_000_000
    records: list[Any] = []
    for number, took in enumerate(seconds):
        injected_ms = now_ms - (len(seconds) - number) * MINUTE_MS
        sung = notice(incident_id=f"i{number}", kind="duplicate_client_id", changed_at_ms=injected_ms)
        delivered_ms = injected_ms + round(took * 1000)
        records.append(record_of(sung, "DELIVERED", delivered_ms, receiver=CANARY, route=CANARY))
        records.append(record_of(notice(changed_at_ms=injected_ms), "DELIVERED", now_ms, receiver="am"))
    own = notice(kind="delivery_failed")
    records.append(record_of(own, "DELIVERED", now_ms, receiver=CANARY, route="delivery_failed"))
    append_rows(RowWriter(warehouse), {"alert_deliveries": records}, "app", 0)


def test_the_command_reports_the_services_own_figure(tmp_path: Path) -> None:
    arrived(tmp_path, 2.0, 4.0, 60.0)
    shown = CliRunner().invoke(app, ["canary", "--warehouse", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "median 4.0 s" in shown.output
    assert "worst 60.0 s; 66.7% within canary.slo_seconds = 30" in " ".join(shown.output.split())
    rows = json.loads(CliRunner().invoke(app, ["canary", "--warehouse", str(tmp_path), "--format", "json"]).stdout)
    assert [row["seconds"] for row in rows] == [2.0, 4.0, 60.0]


@pytest.mark.parametrize("is_written", [True, False], ids=["none_arrived", "no_table"])
def test_the_command_fails_when_none_comes(tmp_path: Path, is_written: bool) -> None:
    if is_written:
        RowWriter(tmp_path)
    shown = CliRunner().invoke(app, ["canary", "--warehouse", str(tmp_path)])
    assert shown.exit_code == 1
    assert ("canary lost: none has arrived" if is_written else "no table alert_deliveries found") in shown.output


def test_its_alerts_are_listed_only_where_its_cluster_is_asked_for(tmp_path: Path) -> None:
    append_rows(RowWriter(tmp_path), {"alerts": [*sung(1), alert_row("real", "FIRING", START_MS)]}, "app", 0)
    assert {row["cluster"] for row in read_alerts(tmp_path)} == {"prod"}
    assert len(read_alerts(tmp_path, cluster=CANARY_CLUSTER)) == 2


def test_no_silence_covers_it() -> None:
    stage = Stage({CANARY: (nest := Scripted())})
    stage.silence(Silence("s", {"kind": ("dup*",)}, "ada", "release", START_MS - 1, START_MS + 3_600_000))
    first, second = sung(2)[:2], sung(2)[2:]
    stage.write(first[0])
    stage.run(5)
    stage.write(*first[1:], *second)
    stage.run(5)
    assert len(nest.notified()) == 4
    assert stage.outcomes("SILENCED") == []


def test_that_another_receiver_fails_is_not_notified_to_it() -> None:
    pager, nest, chat = Scripted(behaviour=lambda _send, _now_ms: BAD_KEY), Scripted(), Scripted()
    stage = Stage({"pager": pager, CANARY: nest, "chat": chat}, routes=[Route("all", ("pager",))])
    stage.put("real", run=5)
    assert (len(nest.notified()), len(chat.notified())) == (0, 1)
