"""Which alerts are notified: states, silences, the limit and routes, in virtual time."""

import pytest

from streaming.relay.receivers.posting import Traits
from tests.relay.stage import START_MS, Row, Scripted, Stage, Step, alert_row, silence, stage_of
from udfs.alerts.routing import Route
from udfs.alerts.silence import Silence


def test_only_firing_and_the_end_of_what_fired_is_notified() -> None:
    stage, pager = stage_of()
    for state in ("PENDING", "UNKNOWN", "PENDING", "FIRING", "RECOVERING", "FIRING", "RECOVERING", "RESOLVED"):
        stage.put("m", state, run=1)
    stage.write(alert_row("n", "PENDING", stage.now_ms), alert_row("n", "RESOLVED", stage.now_ms + 1))
    stage.run(10)
    assert pager.notified() == ["m firing", "m resolved"]
    assert [notice.is_first for _, notice in pager.took()] == [True, False]


def test_a_change_of_queues_cause_or_severity_is_notified_and_nothing_else() -> None:
    stage, pager = stage_of()
    changes: list[Row] = [
        {},
        {"summary": "other words"},
        {"queues": ["broker-a:0", "broker-a:1"]},
        {"queues": ["broker-a:0", "broker-a:1"], "cause": "pull_stopped"},
        {"queues": ["broker-a:0", "broker-a:1"], "cause": "pull_stopped", "severity": "warning"},
        {"queues": ["broker-a:0", "broker-a:1"], "cause": "pull_stopped", "severity": "warning", "evidence": "{}"},
    ]
    for change in changes:
        stage.put("m", run=40, **change)
    assert [(len(one.queues), one.cause, one.severity) for _, one in pager.took()] == [
        (1, "frozen_client", "critical"),
        (2, "frozen_client", "critical"),
        (2, "pull_stopped", "critical"),
        (2, "pull_stopped", "warning"),
    ]


def test_what_an_incident_explains_is_notified_only_when_that_is_over() -> None:
    stage, pager = stage_of()
    stage.put("m", run=60, inhibited_by="cause-1")
    assert pager.calls == []
    assert [(row["outcome"], row["reason"], row["receiver"]) for row in stage.log] == [("INHIBITED", "cause-1", "*")]
    stage.put("m", run=60)
    assert pager.notified() == ["m firing"]


INHIBITED = {"inhibited_by": "cause-1"}
TWO_QUEUES = {"queues": ["broker-a:0", "broker-a:1"]}
OF_CAUSE = {"inhibited_by": f"cause-{START_MS}"}
RECOVERY: list[Step] = ["m FIRING", 30, "m RECOVERING", 60, "m RESOLVED", 60]

TIMELINES: dict[str, tuple[list[Step], list[str]]] = {
    "inhibited once notified": (
        ["m FIRING", 5, ("m FIRING", INHIBITED | {"queues": []}), 5, ("m RESOLVED", INHIBITED), 3_600],
        ["m firing", "m resolved"],
    ),
    "inhibited until its end": ([("m FIRING", INHIBITED), 5, "m RESOLVED", 3_600], []),
    "queues as notified": (["m FIRING", 5, ("m FIRING", TWO_QUEUES), 5, "m FIRING", 3_600], ["m firing"]),
    "ends before its queues settle": (
        ["m FIRING", 5, ("m FIRING", TWO_QUEUES), 5, "m RESOLVED", 3_600],
        ["m firing", "m resolved"],
    ),
    "came and went in a silence while no relay ran": (
        [
            *("crash", silence(0, 60), 10, "quiet FIRING", "loud FIRING", 40, "quiet RESOLVED", 20, "loud RESOLVED"),
            *(3_600, "restart", 60),
        ],
        ["loud firing", "loud resolved"],
    ),
    "outlived its silence while no relay ran": (
        [silence(0, 60), "m FIRING", 5, "crash", 295, "m RESOLVED", 3_600, "restart", 60],
        ["m firing", "m resolved"],
    ),
    "only recovers when its silence ends": ([silence(-1, 60), *RECOVERY], []),
    "only recovers when its silence ends, and no relay runs": (
        [silence(-1, 60), "crash", *RECOVERY, "restart", 60],
        [],
    ),
    "silence ended early": ([silence(0, 3_600), "m FIRING", 10, silence(0, 10), 3], ["m firing"]),
    "silence of what its globs match": (
        [
            *(silence(0, 600, consumer_group="bill*", severity="critical"), "m FIRING"),
            *(("n FIRING", {"consumer_group": "orders"}), ("o FIRING", {"severity": "warning"}), 10),
        ],
        ["n firing", "o firing"],
    ),
    "effect of a silenced cause": (
        [
            silence(-1, 600, kind="dup*"),
            ("cause FIRING", {"kind": "duplicate_client_id"}),
            ("effect FIRING", OF_CAUSE),
            30,
        ],
        [],
    ),
}


@pytest.mark.parametrize("case", TIMELINES)
def test_a_timeline_decides_what_is_notified(case: str) -> None:
    steps, notified = TIMELINES[case]
    stage, pager = stage_of()
    stage.play(steps)
    assert pager.notified() == notified


@pytest.mark.parametrize("crashes", [False, True])
def test_a_silenced_alert_that_still_fires_when_the_silence_ends_is_notified_then(crashes: bool) -> None:
    stage, pager = stage_of()
    stage.silence(silence(0, 600))
    stage.put("m", run=590)
    assert pager.calls == []
    assert [(row["outcome"], row["reason"]) for row in stage.log] == [("SILENCED", "s1")]
    if crashes:
        stage.crash()
        stage.run(5)
        stage.restart()
    stage.run(20)
    assert pager.notified() == ["m firing"]
    notified_at_ms = pager.took()[0][0]
    assert START_MS + 600_000 <= notified_at_ms <= START_MS + 603_000


@pytest.mark.parametrize("mutes", [(), (silence(0, 600),)], ids=["silenced", "muted"])
@pytest.mark.parametrize("crashes", [False, True])
def test_a_silenced_alert_that_ends_in_the_silence_is_never_notified_and_the_log_says_why(
    crashes: bool, mutes: tuple[Silence, ...]
) -> None:
    stage, pager = stage_of(mutes=mutes)
    if not mutes:
        stage.silence(silence(0, 600))
    stage.put("m", run=10)
    if crashes:
        stage.crash()
    stage.put("m", "RESOLVED", run=700)
    if crashes:
        stage.restart()
    stage.run(700)
    assert pager.calls == []
    assert [(row["outcome"], row["status"], row["reason"]) for row in stage.log] == [
        ("SILENCED", "firing", "s1"),
        ("SILENCED", "resolved", "s1"),
    ]


@pytest.mark.parametrize("mutes", [(), (silence(5, 600),)], ids=["silenced", "muted"])
def test_a_silence_of_what_was_notified_keeps_changes_quiet_and_not_the_end(mutes: tuple[Silence, ...]) -> None:
    stage, pager = stage_of(mutes=mutes)
    stage.write(alert_row("m", "FIRING", stage.now_ms), alert_row("n", "FIRING", stage.now_ms))
    stage.run(5)
    if not mutes:
        stage.silence(silence(5, 600))
    for name in "mn":
        stage.write(alert_row(name, "FIRING", stage.now_ms, cause="pull_stopped"))
    stage.run(5)
    stage.put("m", "RESOLVED", run=5)
    assert pager.notified() == ["m firing", "n firing", "m resolved"]
    stage.run(600)
    assert pager.notified()[3:] == ["n firing"]


def test_ten_thousand_alerts_of_one_kind_are_a_hundred_and_one_that_says_how_many_more() -> None:
    stage, pager = stage_of(limit=100)
    stage.write(*(alert_row(f"m{number:05}", "FIRING", START_MS + number) for number in range(10_000)))
    stage.run(60)
    notified = [notice for _, notice in pager.took()]
    assert [one.alert_id for one in notified if one.kind == "starved_queue"] == [f"m{n:05}" for n in range(100)]
    more = [one for one in notified if one.kind == "alerts_limited"]
    assert [one.summary.split(" are")[0] for one in more] == ["9900 more starved_queue"]
    assert len(notified) == 101


@pytest.mark.parametrize("crashes", [False, True])
def test_what_is_over_makes_room_for_the_first_of_those_held_back(crashes: bool) -> None:
    stage, pager = stage_of(limit=2)
    stage.write(*(alert_row(name, "FIRING", START_MS + number) for number, name in enumerate("abcd")))
    stage.run(10)
    if crashes:
        stage.restart(crashes=True)
    stage.put("b", "RESOLVED", run=120)
    own = {notice.alert_id for _, notice in pager.took() if notice.kind == "alerts_limited"}
    assert len(own) == 1
    name = own.pop()
    others = [one for one in pager.notified() if not one.startswith(name)]
    assert others[:2] == ["a firing", "b firing"]
    assert sorted(others[2:]) == ["b resolved", "c firing"]
    counts = [notice.summary.split()[0] for _, notice in pager.took() if notice.alert_id == name]
    assert counts == ["2", "1"]
    stage.put("d", "RESOLVED", run=120)
    assert pager.notified()[6:] == [f"{name} resolved"]
    assert len(pager.notified()) == 7
    assert [row["outcome"] for row in stage.log if row["incident_id"].startswith("d-")] == ["LIMITED", "LIMITED"]


def test_of_one_moment_the_worst_gets_the_room() -> None:
    stage, pager = stage_of(limit=1)
    for name, severity in (("a", "critical"), ("b", "warning"), ("c", "critical")):
        stage.write(alert_row(name, "FIRING", START_MS, severity=severity))
    stage.run(10)
    stage.put("a", "RESOLVED", run=10)
    assert sorted(one for one in pager.notified() if one[1] == " ") == ["a firing", "a resolved", "c firing"]


def test_the_limit_counts_each_kind_and_cluster_by_itself() -> None:
    stage, pager = stage_of(limit=1)
    stage.write(
        alert_row("a", "FIRING", stage.now_ms),
        alert_row("b", "FIRING", stage.now_ms, kind="group_offline"),
        alert_row("c", "FIRING", stage.now_ms, cluster="staging"),
        alert_row("d", "FIRING", stage.now_ms),
    )
    stage.run(10)
    assert sorted(one for one in pager.notified() if one[1] == " ") == ["a firing", "b firing", "c firing"]


def test_the_one_for_the_rest_goes_where_the_rest_would_have_gone() -> None:
    receivers = {"billing": Scripted(), "others": Scripted()}
    routes = [Route("b", ("billing",), {"kind": ("starved_queue",)}), Route("rest", ("others",))]
    stage = Stage(receivers, routes=routes, limit=1)
    stage.write(alert_row("a", "FIRING", stage.now_ms), alert_row("b", "FIRING", stage.now_ms))
    stage.run(10)
    assert len(receivers["billing"].notified()) == 2
    assert receivers["others"].notified() == []


def test_a_severity_that_rises_brings_in_the_receivers_of_its_route_and_keeps_the_first() -> None:
    receivers = {"chat": Scripted(), "pager": Scripted()}
    routes = [Route("bad", ("pager",), {"severity": ("critical",)}), Route("rest", ("chat",))]
    stage = Stage(receivers, routes=routes)
    stage.put("m", run=5, severity="warning")
    stage.put("m", run=5, severity="critical")
    stage.put("m", "RESOLVED", run=5, severity="critical")
    assert receivers["chat"].notified() == ["m firing", "m firing", "m resolved"]
    assert receivers["pager"].notified() == ["m firing", "m resolved"]
    assert [notice.is_first for _, notice in receivers["pager"].took()] == [True, False]


def test_routes_that_change_at_a_restart_bring_in_new_receivers_and_the_old_hear_the_end() -> None:
    receivers = {"old": Scripted(), "new": Scripted()}
    stage = Stage(receivers, routes=[Route("all", ("old",))])
    stage.put("m", run=5)
    stage.crash()
    stage.routes = [Route("all", ("new",))]
    stage.restart()
    stage.run(5)
    stage.put("m", "RESOLVED", run=5)
    assert receivers["old"].notified() == ["m firing", "m resolved"]
    assert receivers["new"].notified() == ["m firing", "m resolved"]


def test_an_acknowledgement_reaches_once_each_receiver_that_can_note_it_even_across_a_crash() -> None:
    pager, chat = Scripted(Traits(can_acknowledge=True)), Scripted()
    stage = Stage({"pager": pager, "chat": chat})
    stage.put("m", run=5)
    incident = f"m-{START_MS}"
    stage.acknowledge("m")
    stage.acknowledge("nobody")
    stage.run(5)
    stage.restart(crashes=True)
    stage.run(60)
    words = [send.notices[0] for _, send, _ in pager.calls if send.notices[0].status == "acknowledged"]
    assert [(word.incident_id, word.reason) for word in words] == [(incident, "acknowledged by ada")]
    assert [(row["receiver"], row["state"]) for row in stage.log if row["status"] == "acknowledged"] == [
        ("pager", "ACKNOWLEDGED")
    ]
    assert len(chat.calls) == 1


def test_the_watchdog_comes_each_minute_to_whoever_asked_and_only_while_there_is_progress() -> None:
    receivers = {"snitch": Scripted(), "pager": Scripted()}
    routes = [Route("dog", ("snitch",), {"kind": ("watchdog",)}), Route("rest", ("pager",))]
    stage = Stage(receivers, routes=routes)
    stage.run(301)
    assert len(receivers["snitch"].calls) == 6
    assert receivers["pager"].calls == []
    assert len({send.notices[0].incident_id for _, send, _ in receivers["snitch"].calls}) == 1
    assert stage.log == []
    stage.watch_age_ms = None
    stage.run(300)
    assert len(receivers["snitch"].calls) == 6
    stage.watch_age_ms = 0
    stage.run(61)
    assert len(receivers["snitch"].calls) >= 7


def gone(name: str, state: str, at_ms: int, kind: str, **columns: str) -> Row:
    return alert_row(name, state, at_ms, kind=kind, broker_name="broker-b", consumer_group=None, queues=[], **columns)


def test_a_broker_that_sends_fail_to_reaches_the_pager_when_it_is_found_to_be_gone() -> None:
    """First an error for the chat; then it gives no data either, under the first alert, which grows critical."""
    chat, pager = Scripted(), Scripted()
    routes = [Route("bad", ("pager",), {"severity": ("critical",)}), Route("rest", ("chat",))]
    stage = Stage({"chat": chat, "pager": pager}, routes=routes)
    sends, cause = f"sends-{START_MS}", {"cause": "failing_broker"}
    stage.write(gone("sends", "FIRING", stage.now_ms, "broker_isolated", severity="error", **cause))
    stage.run(60)
    beats = gone("beats", "FIRING", stage.now_ms, "broker_no_data", severity="critical", inhibited_by=sends)
    queue = alert_row("queue", "FIRING", stage.now_ms, inhibited_by=beats["incident_id"], severity="critical")
    stage.write(beats, queue)
    stage.write(gone("sends", "FIRING", stage.now_ms, "broker_isolated", severity="critical", **cause))
    stage.run(60)
    assert set(pager.notified()) == {"sends firing"}
    assert set(chat.notified()) == {"sends firing"}
    stage.write(gone("beats", "RESOLVED", stage.now_ms, "broker_no_data", inhibited_by=sends))
    stage.write(gone("sends", "RESOLVED", stage.now_ms + 1, "broker_isolated", **cause))
    stage.run(60)
    assert (pager.notified()[-1], chat.notified()[-1]) == ("sends resolved", "sends resolved")
