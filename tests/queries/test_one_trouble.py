"""A broker that is gone is one trouble, told by the sends that fail and by the cluster that misses it; paged once.

In `dead_broker` sends fail from 120 s on, which is told at 160 s; that nobody hears the broker is told at 245 s.
"""

from functools import cache
from typing import Any

import pytest

from streaming.replay.stream import Enveloper
from streaming.simulator.scenario import load_scenario, parse_scenario
from streaming.simulator.simulation import Simulation
from tests.queries.logs import SECOND, START, Messages, Rows, comparable, cut_as_spark_does
from tests.support.engine import cut, replay
from tests.support.rules import default_rules
from tests.support.tiers import in_proof
from udfs.alerts.life import FIRING, RECOVERING, RESOLVED, Reason
from udfs.alerts.rules import Rules
from udfs.brokers.cluster_state import BROKER_ISOLATED, BROKER_NO_DATA

pytestmark = [pytest.mark.replay, pytest.mark.xdist_group("one-trouble")]

LATE = default_rules(broker_isolated_hold_ms=200_000)
"""Producers tell of a broker only when the cluster has."""


@cache
def log_of(lost_until: int = 420, end: int = 720, *, fails_until: int = 0) -> tuple[dict[str, Any], ...]:
    """broker-b is lost at 120 s; back at last, its port may answer while sends to it still fail."""
    play = load_scenario("dead_broker").model_dump() | {"duration_seconds": end, "expects": []}
    lost = play["happenings"][0] | {"until": lost_until}
    fails = {"at": lost_until + 5, "until": fails_until, "action": "fail_broker", "broker_name": "broker-b"}
    play["happenings"] = [lost, fails] if fails_until else [lost]
    return tuple(Enveloper().messages(Simulation(parse_scenario(play), 1, START).events(None)))


def rows_of(rows: Rows, kind: str) -> list[tuple[int, str, str, bool]]:
    """Of what fired: seconds after START, state, reason, whether it waits under another."""
    return [
        ((row["changed_at"] - START) // SECOND, row["state"], row["reason"], row["inhibited_by"] is not None)
        for row in rows["alerts"]
        if row["kind"] == kind and row["fired_at"] is not None and row["reason"] != Reason.FIGURES_CHANGED
    ]


def judged(messages: Messages, rules: Rules | None = None) -> Rows:
    """In batches of about 20 s, as a live query has them."""
    return replay(cut(messages, 40), rules=rules)


def test_sends_describe_it_first_and_page_what_the_cluster_says_waits_under_that() -> None:
    rows = judged(log_of())
    assert rows_of(rows, BROKER_ISOLATED)[:2] == [
        (160, FIRING, Reason.HOLD_OVER, False),
        (250, FIRING, Reason.SEVERITY_CHANGED, False),
    ]
    assert rows_of(rows, BROKER_NO_DATA) == [
        (245, FIRING, Reason.HOLD_OVER, True),
        (425, RECOVERING, Reason.CONDITION_GONE, True),
        (485, RESOLVED, Reason.RECOVERED, True),
    ]
    (isolated,) = {row["incident_id"] for row in rows["alerts"] if row["kind"] == BROKER_ISOLATED}
    assert {row["inhibited_by"] for row in rows["alerts"] if row["kind"] == BROKER_NO_DATA} == {None, isolated}
    graver = next(row for row in rows["alerts"] if row["reason"] == Reason.SEVERITY_CHANGED)
    assert graver["severity"] == "critical"
    assert graver["summary"].endswith("The broker gives no data either.")


def test_what_paged_is_not_over_when_producers_have_given_the_broker_up_and_it_is_still_gone() -> None:
    """The NameServer drops it at 240 s; ten minutes after the last send nobody avoids it any more."""
    rows = judged(log_of(1_500, 1_700))
    reported = [at for at, state, _, is_under in rows_of(rows, BROKER_ISOLATED) if state != FIRING or is_under]
    assert min(reported) >= 1_500
    assert [row for row in rows_of(rows, BROKER_NO_DATA) if not row[3]] == []


def test_the_cluster_reports_it_first_and_the_sends_wait_past_its_end_for_what_they_hold_from_then() -> None:
    """Producers of the older release stay away for ten minutes after the last send that failed."""
    rows = judged(log_of(420, 1_000), LATE)
    assert next(row[:3] for row in rows_of(rows, BROKER_NO_DATA)) == (245, FIRING, Reason.HOLD_OVER)
    assert {is_under for *_, is_under in rows_of(rows, BROKER_NO_DATA)} == {False}
    isolated = rows_of(rows, BROKER_ISOLATED)
    assert isolated[0][1:] == (FIRING, Reason.HOLD_OVER, True)
    assert isolated[-1][1] == RESOLVED
    assert isolated[-1][0] > rows_of(rows, BROKER_NO_DATA)[-1][0]
    assert {is_under for *_, is_under in isolated} == {True}


def test_sends_that_fail_after_the_broker_is_heard_again_page() -> None:
    rows = judged(log_of(420, 1_200, fails_until=1_000), LATE)
    resolved = next(at for at, state, *_ in rows_of(rows, BROKER_NO_DATA) if state == RESOLVED)
    paged = [at for at, _, reason, _ in rows_of(rows, BROKER_ISOLATED) if reason == Reason.CAUSE_ENDED]
    assert len(paged) == 1
    assert paged[0] > resolved


@pytest.mark.parametrize(("rules", "fails_until"), [(LATE, 0), *in_proof([(None, 0), (None, 1_000), (LATE, 1_000)])])
def test_however_the_log_is_cut_the_same_is_reported(rules: Rules | None, fails_until: int) -> None:
    messages = log_of(420, 1_200, fails_until=fails_until)
    whole = comparable(replay([messages], rules=rules))
    assert BROKER_NO_DATA in str(whole["alerts"])
    assert comparable(replay(cut(messages, 250), rules=rules)) == whole
    assert comparable(replay(cut_as_spark_does(messages, 100), rules=rules, limit=100)) == whole
