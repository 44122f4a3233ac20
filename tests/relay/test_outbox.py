"""One receiver at a time, in virtual time: dead for an hour, slow, refusing, leased, or without a good key."""

import itertools

import pytest

from streaming.relay.outbox import Send
from streaming.relay.receivers.posting import Answer, Traits
from tests.relay.stage import BUSY, DELIVERED, DOWN, REFUSED, START_MS, Row, Scripted, Stage, alert_row


def times_of(receiver: Scripted) -> list[float]:
    return [(at_ms - START_MS) / 1000 for at_ms, _, _ in receiver.calls]


def test_a_dead_receiver_is_tried_ever_less_often_up_to_the_most_and_never_not() -> None:
    dead = Scripted(behaviour=lambda _send, _now_ms: DOWN, latency_ms=1)
    stage = Stage({"dead": dead}, oncall={"backoff_min_seconds": 1, "backoff_max_seconds": 60})
    stage.put("m", run=3600)
    times = times_of(dead)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] <= 1.1
    assert all(0.5 <= pause <= 60.1 for pause in pauses)
    assert all(pause >= 30 for pause in pauses[8:])
    assert times[-1] > 3500


def test_what_one_receiver_chokes_on_does_not_hold_up_the_rest() -> None:
    def choke(send: Send, _now_ms: int) -> Answer:
        return BUSY if any(notice.alert_id == "poison" for notice in send.notices) else DELIVERED

    picky = Scripted(behaviour=choke)
    stage = Stage({"picky": picky})
    stage.write(alert_row("poison", "FIRING", stage.now_ms))
    delays = []
    for number in range(20):
        stage.run(30)
        stage.write(alert_row(f"m{number}", "FIRING", stage.now_ms))
        written_ms = stage.now_ms
        stage.run(30)
        delays += [at_ms - written_ms for at_ms, notice in picky.took() if notice.alert_id == f"m{number}"]
    assert len(delays) == 20
    assert max(delays) <= 1_500


def test_what_is_refused_is_given_up_and_recorded_and_the_next_transition_is_tried() -> None:
    fussy = Scripted(behaviour=lambda send, _now_ms: REFUSED if send.notices[0].status == "firing" else DELIVERED)
    stage = Stage({"fussy": fussy})
    stage.put("m", run=600)
    assert len(fussy.calls) == 1
    assert [(row["code"], row["reason"]) for row in stage.outcomes("REFUSED")] == [(400, "no")]
    stage.put("m", "RESOLVED", run=600)
    assert fussy.notified() == ["m resolved"]


@pytest.mark.parametrize("bad", [{0}, {99}, {37, 38}, {5, 50, 95}, set(range(4))], ids=str)
def test_of_a_batch_only_the_refused_ones_are_given_up(bad: set[int]) -> None:
    """Found by halving the batch."""
    names = {f"m{number:02}" for number in bad}
    batcher = Scripted(
        Traits(at_most=100),
        lambda send, _now_ms: REFUSED if names & {notice.alert_id for notice in send.notices} else DELIVERED,
    )
    stage = Stage({"batcher": batcher})
    stage.write(*(alert_row(f"m{number:02}", "FIRING", stage.now_ms + number) for number in range(100)))
    stage.run(30)
    assert len(batcher.notified()) == 100 - len(bad)
    assert {row["incident_id"] for row in stage.outcomes("REFUSED")} == {f"{name}-{START_MS}" for name in names}
    assert len(batcher.calls) <= 1 + 14 * len(bad)


def test_a_wrong_address_refuses_a_batch_in_one_call() -> None:
    lost = Scripted(Traits(at_most=100), lambda _send, _now_ms: Answer("REFUSED", 404, "nobody here"))
    stage = Stage({"lost": lost})
    stage.write(*(alert_row(f"m{number:02}", "FIRING", stage.now_ms) for number in range(90)))
    stage.run(600)
    assert len(lost.calls) == 1
    assert len(stage.outcomes("REFUSED")) == 90


def test_a_proxy_that_takes_fewer_alerts_at_a_time_ends_no_lease() -> None:
    small = Scripted(
        Traits(at_most=100, is_leased=True), lambda send, _now_ms: DELIVERED if len(send.notices) <= 30 else REFUSED
    )
    stage = Stage({"am[0]": small})
    stage.write(*(alert_row(f"m{number}", "FIRING", stage.now_ms) for number in range(90)))
    stage.run(600)
    last_ms = {
        notice.alert_id: at_ms for at_ms, send, answer in small.calls for notice in send.notices if answer is DELIVERED
    }
    assert len(last_ms) == 90
    assert min(last_ms.values()) >= stage.now_ms - 65_000


def test_open_alerts_are_renewed_and_an_empty_alertmanager_learns_all_within_one_resend() -> None:
    manager = Scripted(Traits(at_most=100, is_leased=True))
    stage = Stage({"am[0]": manager})
    stage.write(*(alert_row(f"m{number}", "FIRING", stage.now_ms) for number in range(250)))
    stage.limit = 1000
    stage.run(300)
    rows = len(stage.log)
    seen_ms: dict[str, list[int]] = {}
    for at_ms, send, _ in manager.calls:
        for notice in send.notices:
            seen_ms.setdefault(notice.alert_id, []).append(at_ms)
    notified = {name: times for name, times in seen_ms.items() if name.startswith("m")}
    assert len(notified) == 100
    for times in notified.values():
        assert all(after - before <= 61_000 for before, after in itertools.pairwise(times))
        assert times[-1] >= stage.now_ms - 61_000
    stage.run(3600)
    assert len(stage.log) == rows


def test_what_is_over_is_notified_again_for_fifteen_minutes_and_then_forgotten() -> None:
    manager = Scripted(Traits(at_most=100, is_leased=True))
    stage = Stage({"am[0]": manager})
    stage.write(alert_row("m", "FIRING", stage.now_ms), alert_row("m", "RESOLVED", stage.now_ms + 1))
    stage.run(3600)
    resolved = [at_ms for at_ms, send, _ in manager.calls if send.notices[0].status == "resolved"]
    assert 15 <= len(resolved) <= 17
    assert resolved[-1] <= START_MS + 900_000 + 61_000
    assert stage.owed.outboxes["am[0]"].wake_at_ms(is_recorded=True) is None


def test_a_relay_that_starts_again_renews_what_is_open_at_once() -> None:
    manager = Scripted(Traits(at_most=100, is_leased=True))
    stage = Stage({"am[0]": manager})
    stage.put("m", run=5)
    stage.crash()
    stage.run(3600)
    stage.restart()
    stage.run(1)
    assert len(manager.calls) == 2
    assert manager.calls[1][1].is_renewal
    assert manager.calls[1][1].notices[0].status == "firing"


def test_a_chat_gets_a_storm_in_few_messages() -> None:
    chat = Scripted(Traits(at_most=30, min_interval_ms=3_500))
    stage = Stage({"chat": chat})
    for number in range(60):
        stage.put(f"m{number}", run=0.05)
    stage.run(60)
    assert len(chat.notified()) == 60
    assert [len(send.notices) for _, send, _ in chat.calls] == [30, 30]
    assert times_of(chat)[1] - times_of(chat)[0] >= 3.5


def incident(number: int, state: str, at_ms: int) -> Row:
    """A row of the alert `m`'s incident of that number."""
    return alert_row("m", state, at_ms, incident_id=f"m-{number}", started_at=START_MS + number)


def accepted(receiver: Scripted) -> list[tuple[str, str]]:
    """(incident, status) of all that it took, renewals too, without repetitions in a row."""
    notified = [
        (one.incident_id, one.status) for _, send, answer in receiver.calls for one in send.notices if answer.code
    ]
    return [key for key, _ in itertools.groupby(notified)]


@pytest.mark.parametrize("is_leased", [False, True])
def test_the_end_of_the_old_incident_goes_before_the_beginning_of_the_new(is_leased: bool) -> None:
    receiver = Scripted(
        Traits(at_most=10, is_leased=is_leased),
        lambda _send, now_ms: DOWN if START_MS + 10_000 < now_ms < START_MS + 300_000 else DELIVERED,
    )
    stage = Stage({"r": receiver})
    stage.write(incident(1, "FIRING", stage.now_ms))
    stage.run(20)
    stage.write(incident(2, "FIRING", stage.now_ms), incident(1, "RESOLVED", stage.now_ms))
    stage.run(100)
    stage.restart(crashes=True)
    stage.run(600)
    assert accepted(receiver) == [("m-1", "firing"), ("m-1", "resolved"), ("m-2", "firing")]


def test_an_end_that_comes_after_the_new_beginning_is_given_up_where_it_would_end_that() -> None:
    manager, pager = Scripted(Traits(at_most=100, is_leased=True)), Scripted()
    stage = Stage({"am[0]": manager, "pager": pager})
    stage.write(incident(1, "FIRING", stage.now_ms))
    stage.run(5)
    stage.write(incident(2, "FIRING", stage.now_ms))
    stage.run(5)
    stage.write(incident(1, "RESOLVED", stage.now_ms))
    stage.run(5)
    stage.restart(crashes=True)
    stage.run(3_000)
    assert accepted(manager) == [("m-1", "firing"), ("m-2", "firing")]
    assert accepted(pager)[-1] == ("m-1", "resolved")
    assert [(row["receiver"], row["incident_id"]) for row in stage.outcomes("REFUSED")] == [("am[0]", "m-1")]


@pytest.mark.parametrize("is_leased", [False, True])
def test_an_end_that_a_receiver_chokes_on_holds_up_the_next_incident_not_for_ever(is_leased: bool) -> None:
    """At a leased receiver it is given up."""
    choking = Scripted(
        Traits(at_most=100 if is_leased else 1, is_leased=is_leased),
        lambda send, _now_ms: BUSY if any(one.status == "resolved" for one in send.notices) else DELIVERED,
    )
    stage = Stage({"am[0]": choking})
    stage.write(incident(1, "FIRING", stage.now_ms))
    stage.run(5)
    stage.write(incident(1, "RESOLVED", stage.now_ms))
    stage.run(60)
    stage.now_ms = stage.owed.outboxes["am[0]"].wake_at_ms(is_recorded=True) or 0
    stage.write(incident(2, "FIRING", stage.now_ms))
    stage.run(60)
    assert all(len(send.notices) == 1 for _, send, _ in choking.calls)
    assert choking.keys()[-1].startswith("m-2:firing")
    assert [row["incident_id"] for row in stage.outcomes("REFUSED")] == (["m-1"] if is_leased else [])


def test_renewals_outlast_slow_answers_and_a_flood_of_news() -> None:
    """A thousand open alerts, answers after 15 s, constant news: each is renewed within its lease."""
    slow = Scripted(Traits(at_most=100, is_leased=True), latency_ms=15_000)
    stage = Stage({"am[0]": slow}, limit=10_000)
    stage.write(*(alert_row(f"m{number}", "FIRING", stage.now_ms) for number in range(1_000)))
    for number in range(40):
        stage.run(60)
        stage.write(*(alert_row(f"m{one}", "FIRING", stage.now_ms, cause=f"c{number}") for one in range(200)))
        stage.write(alert_row(f"new{number}", "FIRING", stage.now_ms))
    notified: dict[str, list[int]] = {}
    for at_ms, send, _ in slow.calls:
        for one in send.notices:
            notified.setdefault(one.alert_id, []).append(at_ms)
    gaps = [later - earlier for times in notified.values() for earlier, later in itertools.pairwise(times)]
    silent = [stage.now_ms - times[-1] for times in notified.values()]
    assert max(gaps + silent) < 600_000
    fresh = [at_ms for at_ms, notice in slow.took() if notice.alert_id.startswith("new")]
    assert len(fresh) >= 36
