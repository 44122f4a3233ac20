"""The feed of pulls breaks while heartbeats go on: one thing is told, and no group is blamed."""

import pytest

from schemas.events import PULLS
from tests.queries.events import groups_of_two
from tests.queries.logs import SECOND, START
from tests.support.engine import Stream

pytestmark = pytest.mark.replay


@pytest.mark.parametrize(
    ("brokers", "kind"), [({"broker-b"}, "broker_no_data"), ({"broker-a", "broker-b"}, "cluster_no_data")]
)
def test_pulls_that_stop_for_all_groups_at_once_are_one_page(brokers: set[str], kind: str) -> None:
    events = [
        (topic, event)
        for topic, event in groups_of_two(900, 900)
        if topic != PULLS
        or event["broker_name"] not in brokers
        or not START + 300 * SECOND < event["event_time_ms"] < START + 700 * SECOND
    ]
    rows = Stream().feed(events)["alerts"]
    assert {(row["kind"], row["cause"]) for row in rows} == {(kind, "pulls_missing")}
    assert [row["state"] for row in rows] == ["UNKNOWN", "FIRING", "RECOVERING", "RESOLVED"]


def test_the_pulls_of_one_group_that_stop_are_that_groups_trouble() -> None:
    events = [
        (topic, event)
        for topic, event in groups_of_two(600, 600)
        if topic != PULLS or event["consumer_group"] != "g1" or event["event_time_ms"] < START + 300 * SECOND
    ]
    rows = Stream().feed(events)["alerts"]
    assert {row["consumer_group"] for row in rows} == {"g1"}
    assert "starved_queue" in {row["kind"] for row in rows}


def test_pulls_of_groups_whose_caches_are_full_are_not_missing() -> None:
    """All wait for slow listeners, and pull on when they have consumed."""
    full = {"pull_offset": 2_000, "commit_offset": 500, "max_offset": 9_000}
    events = [
        (topic, {**event, **full} if topic == PULLS and event["event_time_ms"] > START + 250 * SECOND else event)
        for topic, event in groups_of_two(600, 600)
        if topic != PULLS or event["event_time_ms"] < START + 300 * SECOND
    ]
    rows = Stream().feed(events).get("alerts", [])
    assert not {row["kind"] for row in rows} & {"broker_no_data", "cluster_no_data"}
