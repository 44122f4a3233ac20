"""Findings about brokers through time: what is said, when, how it ends, and the nearest innocent case of each rule."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.rules import default_rules
from tests.udfs.producers.sends import MINUTE, SECOND, START, Send, every, judge, reported
from udfs.alerts.alert import Transition
from udfs.alerts.life import FIRING, RESOLVED
from udfs.producers import findings

END = 6 * MINUTE
NEW, OLD, EVICTS = "5.5.0", "4.9.8", "5.1.4"


def healthy(producers: int, end_ms: int = END, broker_name: str = "broker-b", version: str = OLD) -> list[Send]:
    """p0, p1, ... each send once a second, all of it quick."""
    return [
        send
        for number in range(producers)
        for send in every(SECOND, number, end_ms, f"p{number}", broker_name=broker_name, client_version=version)
    ]


def slow_at(at_ms: int, *clients: str, latency_ms: int = 2_000, version: str = OLD) -> list[Send]:
    """2,000 ms keep 4.9.8 away for two minutes."""
    return [Send(at_ms, client, latency_ms=latency_ms, client_version=version) for client in clients]


def but(sends: list[Send], *clients: str, from_ms: int, to_ms: int) -> list[Send]:
    """The log without what these clients sent in between."""
    return [send for send in sends if send.client_id not in clients or not from_ms <= send.at_ms < to_ms]


def of_kind(transitions: list[Transition], kind: str) -> list[Transition]:
    return [one for one in transitions if one.incident.kind == kind]


def test_a_broker_that_half_of_its_producers_avoid_for_half_a_minute_is_isolated_until_a_minute_after() -> None:
    """They are away from 100 s to 220 s."""
    sends = but(healthy(4), "p0", "p1", from_ms=100_001, to_ms=220_000) + slow_at(100_000, "p0", "p1")
    transitions = judge(sends, END)
    assert reported(transitions) == [("broker_isolated", FIRING, 130), ("broker_isolated", RESOLVED, 275)]
    incident = transitions[0].incident
    assert incident.text == (
        "2 of 4 producers have avoided broker-b (cluster c) since 22:15:00 UTC, until at least 22:17:00 UTC. "
        "Cause: it answered their sends in 2,000 ms.",
        "Check broker-b: disk and flush times, page cache, GC, send threads. Producers return without action.",
    )
    assert (incident.cause, incident.severity, incident.broker_name) == ("slow_broker", "warning", "broker-b")
    assert incident.labels == {"cluster": "c", "broker_name": "broker-b"}
    assert incident.evidence == {
        "unavailable_producers": 2,
        "producers": 4,
        "until_ms": START + 220_000,
        "latency_ms": {"least": 2_000, "most": 2_000},
        "failed": 0,
        "by_version": {OLD: {"unavailable_producers": 2, "producers": 4, "until_ms": START + 220_000}},
        "client_ids": ["p0", "p1"],
    }
    json.dumps(incident.evidence)


@pytest.mark.parametrize(
    ("reason", "avoiders", "latency_ms"),
    [
        ("less than half of the producers avoid it", 1, 2_000),
        ("it was slow for a moment: 4.9.8 stays away for 30 s", 4, 600),
        ("it was slow for a moment: 4.9.8 stays away for 60 s", 4, 1_999),
        ("it was quick enough for every table", 4, 549),
    ],
)
def test_a_broker_is_not_isolated_when(reason: str, avoiders: int, latency_ms: int) -> None:
    clients = [f"p{number}" for number in range(avoiders)]
    sends = but(healthy(4), *clients, from_ms=100_001, to_ms=220_000)
    assert reported(judge(sends + slow_at(100_000, *clients, latency_ms=latency_ms), END)) == [], reason


def test_a_broker_that_is_slow_every_half_minute_is_isolated_by_producers_that_stay_away_as_long() -> None:
    sends = [Send(at_ms, client, latency_ms=600) for client in ("p0", "p1") for at_ms in range(60_000, 200_000, 30_500)]
    transitions = judge([*healthy(2, 60_000), *sends], 200_000)
    assert reported(transitions) == [("broker_isolated", FIRING, 95)]


def test_a_broker_that_was_restarted_within_half_a_minute_pages_nobody_from_5_1_4_on() -> None:
    """Away for 33 s in all, for the last failed send keeps a producer away for ten more seconds."""
    failed = [Send(at_ms, "p0", isolation=True, client_version=NEW) for at_ms in (100_000, 110_500, 122_000)]
    sends = but(healthy(1, version=NEW), "p0", from_ms=100_000, to_ms=132_001) + failed
    assert reported(judge(sends, END)) == []
    longer = [Send(at_ms, "p0", isolation=True, client_version=NEW) for at_ms in (100_000, 110_500, 121_000, 131_500)]
    sends = but(healthy(1, version=NEW), "p0", from_ms=100_000, to_ms=141_501) + longer
    assert reported(judge(sends, END))[:1] == [("broker_isolated", FIRING, 135)]


def test_the_share_is_a_setting() -> None:
    sends = but(healthy(4), "p0", from_ms=100_001, to_ms=220_000) + slow_at(100_000, "p0")
    assert reported(judge(sends, END, rules=default_rules(broker_isolated_share=0.25)))[:1] == [
        ("broker_isolated", FIRING, 130)
    ]


def test_it_counts_from_when_enough_avoid_it_not_from_when_the_first_did() -> None:
    """p0 is away from 60 s on, for ten minutes; p1 joins it at 150 s, for two."""
    away = [Send(60_000, "p0", isolation=True), Send(150_000, "p1", latency_ms=2_000)]
    sends = but(healthy(4), "p0", from_ms=60_000, to_ms=END)
    sends = but(sends, "p1", from_ms=150_000, to_ms=270_000) + away
    transitions = judge(sends, END)
    assert reported(transitions) == [("broker_isolated", FIRING, 180), ("broker_isolated", RESOLVED, 325)]
    assert transitions[0].incident.started_at_ms == START + 150_000


def test_producers_that_try_a_slow_broker_again_and_again_make_one_incident() -> None:
    """5.5.0 stays away for 2 s after 700 ms; here each producer tries again every 4 s, from 60 s to 180 s."""
    sends = [
        send
        for number in range(4)
        for send in [
            *every(SECOND, number, 60_000, f"p{number}", client_version=NEW),
            *every(4_000, 60_000 + 400 * number, 180_000, f"p{number}", latency_ms=700, client_version=NEW),
            *every(SECOND, 180_000 + number, END, f"p{number}", client_version=NEW),
        ]
    ]
    transitions = judge(sends, END)
    assert reported(transitions) == [("broker_isolated", FIRING, 100), ("broker_isolated", RESOLVED, 240)]
    assert transitions[0].incident.evidence["unavailable_producers"] == 4


def test_a_break_shorter_than_a_minute_ends_nothing() -> None:
    """Out from 30 s to 150 s, quick for 50 s, out again from 200 s to 260 s."""
    slow = [*slow_at(30_000, "p0", "p1"), *slow_at(200_000, "p0", "p1", latency_ms=1_000)]
    sends = but(healthy(2), "p0", "p1", from_ms=30_001, to_ms=150_000)
    sends = but(sends, "p0", "p1", from_ms=200_001, to_ms=260_000) + slow
    assert reported(judge(sends, END)) == [("broker_isolated", FIRING, 60), ("broker_isolated", RESOLVED, 315)]


def test_failing_sends_are_told_apart_and_every_release_is_named_with_its_own_time() -> None:
    """A failed send shuts 4.9.8 out for ten minutes; 5.5.0 tries again every ten seconds."""
    failing = [Send(100_000, "p0", latency_ms=3_000, isolation=True)]
    failing += [
        Send(at_ms, "p1", latency_ms=9, isolation=True, client_version=NEW) for at_ms in range(100_000, 180_000, 10_500)
    ]
    (fired,) = of_kind(judge([*healthy(2, 100_000), *failing], 180_000), "broker_isolated")
    assert fired.incident.cause == "failing_broker"
    assert fired.incident.severity == "error"
    assert fired.incident.text.summary == (
        "2 of 2 producers have avoided broker-b (cluster c) since 22:15:00 UTC, until at least 22:25:00 UTC "
        "(1 of 4.9.8 until 22:25:00 UTC and 1 of 5.5.0 until 22:15:31 UTC). "
        "Cause: their sends to it fail after 9 to 3,000 ms."
    )
    assert "broker-b is up" in fired.incident.text.advice


def test_a_slow_broker_that_begins_to_fail_is_reported_again_once_all_agree() -> None:
    slow = [Send(at_ms, f"p{at_ms % 2}", latency_ms=1_200) for at_ms in range(60_000, 100_000, 999)]
    failing = [Send(at_ms, f"p{at_ms % 2}", isolation=True) for at_ms in range(100_000, 140_000, 999)]
    transitions = judge([*healthy(2, 60_000), *slow, *failing], 140_000)
    assert [(one.state, one.incident.cause) for one in transitions] == [
        (FIRING, "slow_broker"),
        (FIRING, "failing_broker"),
    ]
    assert len({one.incident.incident_id for one in transitions}) == 1


def test_an_isolated_broker_whose_producers_have_all_stopped_is_over() -> None:
    sends = healthy(2, 100_000) + slow_at(100_000, "p0", "p1")
    assert reported(judge(sends, END)) == [("broker_isolated", FIRING, 130), ("broker_isolated", RESOLVED, 275)]


def evicting(client_id: str, *, version: str = EVICTS, end_ms: int = END, also: str | None = "broker-a") -> list[Send]:
    """Refused by broker-b at 60 s, which makes it unreachable; what it sends afterwards goes elsewhere."""
    sends = every(SECOND, 0, 60_000, client_id, client_version=version)
    sends += [Send(60_000, client_id, isolation=True, reachable=False, client_version=version)]
    if also:
        sends += every(SECOND, 500, end_ms, client_id, broker_name=also, client_version=version)
    return sends


def test_a_5_1_4_producer_that_never_comes_back_is_reported_a_minute_after_it_could_have() -> None:
    """Its ten seconds are over at 70 s. It comes back when somebody restarts it, here at 200 s."""
    sends = [*evicting("lost"), *healthy(3), *every(SECOND, 200_001, END, "lost", client_version=EVICTS)]
    transitions = judge(sends, END)
    assert reported(transitions) == [("broker_evicted", FIRING, 130), ("broker_evicted", RESOLVED, 205)]
    incident = transitions[0].incident
    assert incident.text == (
        "1 of 4 producers will never send to broker-b (cluster c) again: lost. The avoidance should have ended at "
        "22:14:30 UTC, but RocketMQ 5.1.4 waits for a reachability check that is off by default (apache/rocketmq issue "
        "7812).",
        "Restart this producer now; then upgrade the client to 5.2.0 or newer, or set "
        "-Dcom.rocketmq.startDetectorEnable=true.",
    )
    assert (incident.cause, incident.severity, incident.client_id) == ("permanent_eviction", "error", "lost")
    assert incident.started_at_ms == START + 70_000
    assert incident.evidence == {
        "producers": {
            "lost": {
                "client_version": EVICTS,
                "last_attempt_ms": START + 60_000,
                "start_timestamp_ms": START + 70_000,
            }
        }
    }


@pytest.mark.parametrize(
    ("reason", "sends"),
    [
        ("before and after 5.1.4 time alone brings a producer back", evicting("p", version="5.2.0")),
        ("it sends nothing anywhere, so nothing is known", evicting("p", also=None)),
        ("it has stopped since", evicting("p", end_ms=70_000)),
        ("it is back, which a detector can bring about", [*evicting("p"), Send(95_000, "p", client_version=EVICTS)]),
    ],
)
def test_a_broker_is_not_evicted_when(reason: str, sends: list[Send]) -> None:
    assert of_kind(judge([*sends, *healthy(4)], END), "broker_evicted") == [], reason


def test_one_page_names_all_producers_that_have_evicted_a_broker_and_does_not_call_it_isolated_too() -> None:
    lost = [send for number in range(6) for send in evicting(f"lost-{number}", end_ms=15 * MINUTE)]
    transitions = judge([*lost, *healthy(2, 15 * MINUTE)], 15 * MINUTE)
    assert reported(transitions) == [("broker_evicted", FIRING, 130)]
    assert "6 of 8 producers will never send" in transitions[0].incident.text.summary
    assert "lost-0, lost-1, lost-2, lost-3 and 2 more." in transitions[0].incident.text.summary


def test_an_evicted_broker_is_over_five_minutes_after_its_producer_stopped() -> None:
    transitions = judge([*evicting("lost", end_ms=4 * MINUTE), *healthy(3, 12 * MINUTE)], 12 * MINUTE)
    assert reported(transitions) == [("broker_evicted", FIRING, 130), ("broker_evicted", RESOLVED, 540)]


def stranded(client_id: str, *, version: str = OLD, from_ms: int = 60_000, to_ms: int = 150_000) -> list[Send]:
    """Slow at both brokers in between, as often as it sends."""
    return [
        send
        for broker_name in ("broker-a", "broker-b")
        for send in [
            *every(SECOND, 0, from_ms, client_id, broker_name=broker_name, client_version=version),
            *every(SECOND, from_ms, to_ms, client_id, broker_name=broker_name, latency_ms=700, client_version=version),
            *every(SECOND, to_ms, END, client_id, broker_name=broker_name, client_version=version),
        ]
    ]


def well(producers: int) -> list[Send]:
    return [*healthy(producers), *healthy(producers, broker_name="broker-a")]


def test_a_producer_without_any_available_broker_is_reported_and_how_it_may_stay_spoilt() -> None:
    transitions = judge([*stranded("lost", version="4.7.1"), *well(3)], END)
    assert reported(transitions) == [("no_available_broker", FIRING, 90), ("no_available_broker", RESOLVED, 205)]
    incident = transitions[0].incident
    assert incident.text == (
        "1 of 4 producers of cluster c has avoided all of its brokers since 22:14:20 UTC: lost (broker-a and "
        "broker-b). Sends still go to these brokers.",
        "Most producers are fine: check the hosts and the network of these producers. "
        "Then restart producers of 4.7.1: they may stay with one broker (apache/rocketmq issue 7779).",
    )
    assert (incident.cause, incident.severity, incident.client_id) == ("producer_host", "warning", "lost")
    assert incident.labels == {"cluster": "c"}
    assert incident.evidence["alive"] == 4
    assert set(incident.evidence["producers"]["lost"]["until_ms"]) == {"broker-a", "broker-b"}


def test_one_producer_whose_sends_fail_at_every_broker_is_critical() -> None:
    sends = [replace(send, isolation=send.latency_ms > 100) for send in stranded("lost")]
    (fired, *_) = of_kind(judge([*sends, *well(3)], END), "no_available_broker")
    assert (fired.incident.cause, fired.incident.severity) == ("producer_host", "critical")


def far(from_ms: int = 0, to_ms: int = END) -> list[Send]:
    """A producer whose sends take 700 ms everywhere and arrive."""
    places = ("broker-a", "broker-b")
    return [one for name in places for one in every(SECOND, from_ms, to_ms, "far", broker_name=name, latency_ms=700)]


@pytest.mark.parametrize("others", [1, 3, 20])
def test_a_producer_that_has_always_been_slow_has_its_brokers(others: int) -> None:
    assert of_kind(judge([*far(), *well(others)], END), "no_available_broker") == []


def test_a_producer_that_stays_slow_is_reported_until_that_is_its_usual_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "USUAL_MS", 2 * MINUTE)
    transitions = of_kind(judge([*stranded("lost", to_ms=END), *well(3)], END), "no_available_broker")
    assert reported(transitions) == [("no_available_broker", FIRING, 90), ("no_available_broker", RESOLVED, 235)]


def test_producers_restarted_while_all_brokers_are_slow_do_not_end_it() -> None:
    first = [one for name in ("p0", "p1") for one in stranded(name) if one.at_ms < 100_000]
    second = [
        replace(one, client_id=f"{one.client_id}-again")
        for name in ("p0", "p1")
        for one in stranded(name, to_ms=END)
        if one.at_ms >= 100_000
    ]
    transitions = of_kind(judge([*first, *second], END), "no_available_broker")
    assert reported(transitions) == [("no_available_broker", FIRING, 90)]


def test_when_most_producers_have_no_broker_the_brokers_are_to_blame() -> None:
    transitions = of_kind(judge([*stranded("p0"), *stranded("p1")], END), "no_available_broker")
    assert (transitions[0].incident.cause, transitions[0].incident.severity) == ("all_brokers", "critical")
    assert "7779" not in transitions[0].incident.text.advice, "4.9.8 spoils nothing"


@pytest.mark.parametrize(
    ("reason", "sends"),
    [
        ("one broker is left", [s for s in stranded("p") if s.broker_name == "broker-b" or s.latency_ms < 100]),
        ("it has only one", [s for s in stranded("p") if s.broker_name == "broker-b"]),
        ("they are out in turn, never at once", [s for s in stranded("p") if s.latency_ms < 100]
            + [Send(60_000, "p", "broker-a", 1_200), Send(130_000, "p", "broker-b", 1_200)]),
        ("it did not last", stranded("p", to_ms=80_000)),
    ],
)  # fmt: skip
def test_a_producer_has_a_broker_when(reason: str, sends: list[Send]) -> None:
    assert of_kind(judge([*sends, *well(4)], END), "no_available_broker") == [], reason


sends_of_any_kind = st.lists(
    st.builds(
        Send,
        at_ms=st.integers(0, 300_000),
        client_id=st.sampled_from(["p0", "p1", "p2"]),
        broker_name=st.sampled_from(["broker-a", "broker-b"]),
        latency_ms=st.sampled_from([3, 700, 1_900, 20_000]),
        isolation=st.booleans(),
        reachable=st.booleans(),
    ).map(
        lambda send: Send(**{**send.__dict__, "client_version": {"p0": OLD, "p1": EVICTS, "p2": NEW}[send.client_id]})
    ),
    max_size=60,
)


@examples(80)
@given(sends_of_any_kind, st.integers(2, 40))
def test_a_log_gives_the_same_alerts_however_it_is_cut(sends: list[Send], batches: int) -> None:
    rules = default_rules(broker_isolated_hold_ms=10_000, broker_isolated_clear_ms=15_000, broker_evicted_ms=40_000)
    assert judge(sends, 400_000, batches, rules) == judge(sends, 400_000, 1, rules)
