"""Notified alerts, in virtual time: tests/golden/notifications.txt, case by case, and what takes more than a case."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from structlog.testing import capture_logs

from conf.oncall import Mute
from streaming.relay.mutes import make_mutes
from streaming.relay.notice import Notice
from streaming.relay.receivers.posting import Answer, Traits
from streaming.text.times import MINUTE
from tests.relay.stage import (
    BAD_KEY,
    DELIVERED,
    DOWN,
    POLL_MS,
    REFUSED,
    START_MS,
    Row,
    Scripted,
    Stage,
    alert_row,
    silence,
    stage_of,
)
from tests.support.golden import Case, each_case
from udfs.alerts.routing import Route
from udfs.alerts.self_kinds import RELAY_KINDS

CRITICAL = Route("bad", ("pager",), {"severity": ("critical",)})
ROUTES = {
    "all": [Route("all", ("pager",))],
    "both": [Route("all", ("pager", "chat"))],
    "chat": [Route("all", ("chat",))],
    "critical": [CRITICAL],
    "split": [CRITICAL, Route("rest", ("chat",))],
    "starved": [Route("starved", ("pager",), {"kind": ("starved_queue",)}), Route("rest", ("chat",))],
}
ANSWERS = {
    "bad_key": BAD_KEY,
    "down": DOWN,
    "gone": Answer("REFUSED", 410, "gone"),
    "limited": Answer("RETRY", 429, "", 90.0),
    "lost": Answer("REFUSED", 404, "nobody here"),
    "moved": Answer("REFUSED", 302, "over there"),
    "ok": DELIVERED,
    "refuses": REFUSED,
}
RECEIVERS = ("pager", "chat", "hook")
WITHHELD = ("SILENCED", "INHIBITED", "LIMITED", "NO_ROUTE")


def queues_of(number: int) -> list[str]:
    return [f"broker-a:{queue_id}" for queue_id in range(number)]


def columns_of(words: Sequence[str]) -> Row:
    columns: Row = {}
    for name, value in (word.split("=") for word in words):
        match name:
            case "queues":
                columns[name] = queues_of(int(value))
            case "inhibited_by":
                columns[name] = f"{value}-{START_MS}"
            case _:
                columns[name] = None if value == "-" else value
    return columns


def mutes_of(minutes: str) -> list[Any]:
    """Return the mute between two minutes, counted from the minute in which the stage begins."""
    zone = ZoneInfo("Asia/Shanghai")
    start, end = (
        f"{datetime.fromtimestamp((START_MS + int(minute) * MINUTE) / 1000, zone):%H:%M}"
        for minute in minutes.split("-")
    )
    mute = {"name": "m", "match": {"cluster": "*"}, "from": start, "to": end, "time_zone": zone.key}
    return make_mutes([Mute.model_validate(mute)])


def stage_of_case(start: str) -> Stage:
    routes, *words = start.split()
    options = dict(word.split("=") for word in words)
    latency_ms = int(options.get("latency", 20))
    receivers = {name: Scripted(Traits(can_acknowledge=True), latency_ms=latency_ms) for name in RECEIVERS}
    return Stage(
        {**receivers, "log": Scripted(Traits(is_quiet=True))},
        routes=ROUTES[routes],
        limit=int(options.get("limit", 100)),
        mutes=mutes_of(options["mute"]) if "mute" in options else (),
        write_ms=int(options.get("write", 0)),
    )


def play(stage: Stage, step: str, receivers: dict[str, Scripted]) -> None:
    match step.split():
        case [seconds] if seconds.isdecimal():
            stage.run(int(seconds))
        case ["crash"]:
            stage.crash()
        case ["restart"]:
            stage.restart()
        case ["end"]:
            stage.owed.advance(stage.now, is_ending=True)
        case ["ack", name]:
            stage.acknowledge(name)
        case ["clock", seconds]:
            stage.set_by_ms = int(seconds) * 1000
        case ["routes", name]:
            stage.routes = ROUTES[name]
        case ["receivers", *names]:
            stage.receivers = {name: receivers[name] for name in names}
        case ["silence", span, *matchers]:
            start_s, end_s = map(int, span.split(".."))
            stage.silence(silence(start_s, end_s, **dict(matcher.split("=") for matcher in matchers)))
        case [name, answer] if name in RECEIVERS:
            receivers[name].behaviour = lambda _send, _now_ms: ANSWERS[answer]
        case [name, state, *columns]:
            stage.write(alert_row(name, state, stage.now_ms, **columns_of(columns)))
        case _:
            pytest.fail(f"no such step: {step}")


def name_of(notice: Notice) -> str:
    return notice.kind if notice.kind in RELAY_KINDS else notice.alert_id


def field_of(notice: Notice, field: str) -> str:
    if field == "queues":
        return str(len(notice.queues))
    if field == "count":
        return notice.summary.split()[0]
    return str(notice.labels.get(field) or getattr(notice, field))


def accepted(receiver: Scripted) -> list[tuple[int, Notice]]:
    return [
        (at_ms - START_MS, notice)
        for at_ms, send, answer in receiver.calls
        if answer.verdict == "DELIVERED" and not send.is_renewal
        for notice in send.notices
    ]


def assert_notified(receiver: Scripted, expected: str) -> None:
    found = accepted(receiver)
    shown = ", ".join(f"{at_ms / 1000:g} {name_of(notice)} {notice.status}" for at_ms, notice in found)
    wanted = [one.split() for one in expected.split(", ") if one]
    assert [words[1:3] for words in wanted] == [[name_of(notice), notice.status] for _, notice in found], shown
    for (second, _, _, *fields), (at_ms, notice) in zip(wanted, found, strict=True):
        assert 0 <= at_ms - int(second) * 1000 <= POLL_MS + 1_000, shown
        assert fields == [f"{field}={field_of(notice, field)}" for field in (one.split("=")[0] for one in fields)]


@each_case("notifications")
def test_a_timeline_decides_what_is_notified(case: Case) -> None:
    stage = stage_of_case(case.start)
    receivers = dict(stage.receivers)
    for step in case.steps.split("; "):
        play(stage, step, receivers)
    for name in RECEIVERS:
        assert_notified(receivers[name], case.checks.get(name, ""))
    own = [row for row in stage.alerts if row["kind"] in RELAY_KINDS]
    assert len({row["alert_id"] for row in own}) == len({row["kind"] for row in own}), "one alert of each kind"
    found = {
        "log": [
            f"{row['outcome']} {row['incident_id']} {row['status']} {row['receiver']} {row['reason']}"
            for row in stage.log
            if row["outcome"] in WITHHELD
        ],
        "own": [f"{row['kind']} {row['state']}" for row in own],
        "open": [*stage.owed.incidents] or ["-"],
    }
    others = {name: rows for name, rows in case.checks.items() if name not in RECEIVERS}
    assert others == {name: ", ".join(found[name]).replace(f"-{START_MS}", "") for name in others}


def test_ten_thousand_alerts_of_one_kind_are_a_hundred_and_one_that_says_how_many_more() -> None:
    stage, pager = stage_of(limit=100)
    stage.write(*(alert_row(f"m{number:05}", "FIRING", START_MS + number) for number in range(10_000)))
    stage.run(60)
    notified = [notice for _, notice in pager.took()]
    assert [one.alert_id for one in notified if one.kind == "starved_queue"] == [f"m{n:05}" for n in range(100)]
    more = [one for one in notified if one.kind == "alerts_limited"]
    assert [one.summary.split(" are")[0] for one in more] == ["9900 more starved_queue"]
    assert len(notified) == 101


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


@pytest.mark.parametrize("tick_seconds", [5, 10, 30, 75])
@pytest.mark.parametrize("sizes", [range(30, 0, -1), range(1, 31), [1, 2] * 15], ids=["shrinks", "grows", "flaps"])
def test_a_list_that_changes_at_each_tick_is_notified_a_few_times_and_ends_as_it_is(
    sizes: list[int], tick_seconds: int
) -> None:
    stage, pager = stage_of()
    for size in sizes:
        stage.put("m", run=tick_seconds, queues=queues_of(size))
    notified = len(pager.took())
    assert notified <= 2 + 30 * tick_seconds / 120
    stage.run(3_600)
    assert pager.took()[-1][1].queues == tuple(queues_of(list(sizes)[-1]))
    assert len(pager.took()) <= notified + 1
