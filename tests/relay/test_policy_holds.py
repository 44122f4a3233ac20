"""Reasons that withhold a notification, and their end: no route, causes that only the log has, silences, receivers."""

import pytest
from structlog.testing import capture_logs

from streaming.relay.receivers.posting import Traits
from tests.relay.stage import START_MS, Scripted, Stage, alert_row, silence, stage_of
from udfs.alerts.routing import Route

CAUSE = f"cause-{START_MS}"
CRITICAL = Route("bad", ("pager",), {"severity": ("critical",)})


def test_what_no_route_takes_is_in_the_log_and_is_not_notified_to_who_comes_after_its_end() -> None:
    stage = Stage({"pager": Scripted()}, routes=[CRITICAL])
    stage.write(alert_row("m", "FIRING", stage.now_ms, severity="warning"))
    stage.put("open", run=30, severity="warning")
    stage.put("m", "RESOLVED", run=30, severity="warning")
    rows = [(row["status"], row["receiver"], row["reason"]) for row in stage.outcomes("NO_ROUTE")]
    assert rows == [(status, "*", "no route matches") for status in ("firing", "firing", "resolved")]
    stage.crash()
    chat = stage.receivers["chat"] = Scripted()
    stage.routes = [CRITICAL, Route("rest", ("chat",))]
    stage.restart()
    stage.run(30)
    assert chat.notified() == ["open firing"]
    assert f"m-{START_MS}" in stage.owed.completed


def test_what_no_route_takes_leaves_the_limit_to_others_and_is_notified_when_it_is_bad_enough() -> None:
    stage, pager = stage_of(routes=[CRITICAL], limit=1)
    stage.put("m", run=5, severity="warning")
    stage.put("m", run=5, severity="critical")
    assert pager.notified() == ["m firing"]


@pytest.mark.parametrize("is_first", [True, False], ids=["cause_first", "effect_first"])
@pytest.mark.parametrize("severity", ["info", "warning"], ids=["logged", "unrouted"])
@pytest.mark.parametrize("crashes", [True, False])
def test_the_effect_of_a_cause_that_nobody_hears_of_is_notified(is_first: bool, severity: str, crashes: bool) -> None:
    pager = Scripted()
    stage = Stage({"pager": pager, "log": Scripted(Traits(is_quiet=True))}, routes=[CRITICAL])
    rows = [
        alert_row("cause", "FIRING", stage.now_ms, severity=severity, kind="duplicate_client_id"),
        alert_row("effect", "FIRING", stage.now_ms, inhibited_by=CAUSE),
        alert_row("mild", "FIRING", stage.now_ms, inhibited_by=CAUSE, severity="info"),
    ]
    for row in rows if is_first else reversed(rows):
        stage.write(row)
        stage.run(5)
    if crashes:
        stage.restart(crashes=True)
        stage.run(5)
    assert pager.notified() == ["effect firing"]
    assert [row["incident_id"] for row in stage.outcomes("INHIBITED") if row["incident_id"][0] == "m"]


def test_a_receiver_that_is_taken_out_and_put_back_is_notified_the_end() -> None:
    pager, chat = Scripted(), Scripted()
    stage = Stage({"pager": pager, "chat": chat}, routes=[Route("all", ("pager", "chat"))])
    stage.put("m", run=5)
    for names in (("chat",), ("pager", "chat")):
        stage.crash()
        stage.receivers = {name: {"pager": pager, "chat": chat}[name] for name in names}
        stage.restart()
        if "pager" not in names:
            stage.write(alert_row("m", "RESOLVED", stage.now_ms))
        stage.run(1_000)
    assert pager.notified() == chat.notified() == ["m firing", "m resolved"]
    assert not stage.owed.incidents


@pytest.mark.parametrize("crashes", [True, False])
def test_an_acknowledgement_of_what_is_not_notified_yet_is_applied_when_it_is(crashes: bool) -> None:
    pager = Scripted(Traits(can_acknowledge=True))
    stage = Stage({"pager": pager})
    stage.silence(silence(-1, 60))
    stage.put("m", run=5)
    stage.acknowledge("m")
    stage.run(5)
    if crashes:
        stage.restart(crashes=True)
    stage.run(60)
    assert [send.notices[0].status for _, send, _ in pager.calls] == ["firing", "acknowledged"]


def test_one_held_back_that_flaps_ends_the_count_of_the_rest_only_after_a_minute_without() -> None:
    stage, pager = stage_of(limit=2)
    stage.write(*(alert_row(name, "FIRING", START_MS + number) for number, name in enumerate("abc")))
    for _ in range(4):
        stage.run(20)
        stage.put("c", "RECOVERING", run=20)
        stage.write(alert_row("c", "FIRING", stage.now_ms))
    stage.run(20)
    own = [notice.status for _, notice in pager.took() if notice.kind == "alerts_limited"]
    assert own == ["firing"]
    stage.put("c", "RESOLVED", run=50)
    assert len(pager.notified()) == 3
    stage.run(20)
    assert pager.took()[-1][1].status == "resolved"


@pytest.mark.parametrize("dies_after_s", [1, 4, 7, 11])
def test_a_relay_that_dies_while_the_log_is_slow_leaves_no_incident_open_at_a_receiver(dies_after_s: int) -> None:
    """Without its record the next relay would withhold the incident, and so its end."""
    stage, pager = stage_of(write_ms=3_000)
    stage.put("m", run=dies_after_s)
    assert len(pager.calls) == (dies_after_s > 3)
    stage.crash()
    stage.silence(silence(-1, 3_600))
    stage.restart()
    stage.put("m", "RESOLVED", run=60)
    notified = dict.fromkeys(pager.notified())
    assert [*notified] == (["m firing", "m resolved"] if dies_after_s > 3 else [])


def test_a_log_that_hangs_delays_a_page_by_ten_seconds() -> None:
    stage, pager = stage_of(write_ms=600_000)
    stage.write(alert_row("m", "FIRING", stage.now_ms))
    with capture_logs() as logs:
        stage.run(30)
    assert [at_ms - START_MS for at_ms, _, _ in pager.calls] == [10_000]
    assert [(line["event"], line["error"]) for line in logs] == [
        ("delivery log not written, notifications continue", "not finished within 10 s")
    ]


def test_an_answer_to_a_call_from_before_a_reload_is_not_taken_for_that_of_the_next_call() -> None:
    """The tables do not have the answer, so the notification is sent again, and recorded once."""
    pager = Scripted(latency_ms=9_000)
    stage = Stage({"pager": pager})
    stage.put("m", run=1)
    stage.reload()
    stage.run(60)
    assert pager.notified() == ["m firing", "m firing"]
    assert [row["receiver"] for row in stage.outcomes("DELIVERED")] == ["pager"]
