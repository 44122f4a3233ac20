"""Consumption where offsets of pulls matter: full caches, dropped messages. The rest: tests/golden/groups.txt."""

from dataclasses import replace

import pytest

from tests.udfs.groups.facts import A, Flow, Life, Pull, at, fired_kinds, play
from udfs.groups.queue_state import note_offsets


def consuming(until: float) -> Life:
    """One client that consumes the only queue."""
    life = Life(queues=1, flow=Flow())
    play(life, f"start h1:1 A 0; to {until}")
    return life


def flow_of(life: Life) -> Flow:
    assert life.flow is not None
    return life.flow


def pull_on(until: float, ahead: int) -> Life:
    """Two members subscribe by different tags, and from 300 on nothing is committed. Pulls follow the queue's end, up
    to so many messages beyond the commit.
    """
    life = consuming(0)
    play(life, "start h2:1 B tags=paid; to 300; hang")
    flow = flow_of(life)
    while life.now < until:
        life.pulls |= {"pull_offset": min(flow.end, flow.commit + ahead)}
        life.run(life.now + 5)
    return life


def test_while_members_differ_in_tags_pulls_of_ever_further_offsets_excuse_a_commit_that_stands_still() -> None:
    """The client may drop messages and pulls on: tags_differ, seen by agents at the brokers."""
    life = pull_on(1_200, ahead=1 << 40)
    assert fired_kinds(life) == {"inconsistent_subscription"}
    assert life.verdicts() == ["OK"]


@pytest.mark.parametrize("cached", [1, 1_000])
def test_a_listener_that_hangs_is_reported_though_members_differ_in_tags(cached: int) -> None:
    """Its client pulls no further than its cache."""
    starved = pull_on(570, ahead=cached).state.incidents["starved_queue orders"]
    assert (starved.cause, starved.state) == ("consume_stopped", "FIRING")


def held_back(seconds: int, times: int) -> Life:
    """From 100 s on one pull in `seconds`, always with a full cache, the commit having advanced by what fits since."""
    life = consuming(100)
    commit, life.flow = flow_of(life).commit, None
    for _ in range(times):
        commit += 32
        life.pulls = {"commit_offset": commit, "max_offset": commit + 5_000, "pull_offset": commit + 1_000}
        play(life, f"take h1:1 0; to {life.now + 10}; take h1:1; to {life.now + seconds}")
    return life


@pytest.mark.parametrize("seconds", [100, 170])
def test_a_client_held_back_by_its_full_cache_pulls_rarely_and_is_healthy(seconds: int) -> None:
    life = held_back(seconds, 12)
    assert fired_kinds(life) == set()
    assert [row for when, outcome in life.outcomes for row in outcome.ownership if when > 120] == []


def test_a_client_held_back_that_freezes_is_reported_by_its_heartbeats() -> None:
    life = held_back(100, 3)
    assert any("starved_queue frozen_client" in row for row in play(life, f"freeze h1:1; to {life.now + 200}"))


def test_a_hung_listener_whose_cache_has_filled_up_pulls_no_more_and_is_reported() -> None:
    """As agents at the brokers see it: no event follows the last pull."""
    life = consuming(300)
    play(life, "hang")
    flow = flow_of(life)
    while life.now < 380:
        life.pulls |= {"pull_offset": min(flow.end + 250, flow.commit + 1_010)}
        life.run(life.now + 5)
    life.flow = None
    said = [row.partition(" ")[2] for row in play(life, "take h1:1; to 550")]
    assert said == [f"{kind}_queue consume_stopped" for kind in ("stalled", "starved", "stalled")]


def test_nothing_is_known_of_a_queue_whose_client_is_held_back_for_long() -> None:
    life = held_back(400, 1)
    assert life.verdicts() == ["UNKNOWN"]
    assert life.state.topics["orders"].queues["broker-a:0"].reason == "flow_control"


def test_a_queue_that_ends_before_its_commit_was_made_anew_and_an_older_event_changes_nothing() -> None:
    pulls = [Pull(A, "h1:1", 0, at(10 * number), commit_offset=500 + number, max_offset=9_000) for number in range(2)]
    anew = replace(pulls[0], event_time_ms=at(20), commit_offset=0, max_offset=7)
    known = None
    for pull in [*pulls, anew, replace(pulls[0], event_time_ms=at(15))]:
        known = note_offsets(known, pull)
    assert known == note_offsets(None, anew)


def test_two_causes_in_one_topic_are_told_apart_by_queue() -> None:
    """One client's listener hangs while it pulls on, the other client stops pulling."""
    life = Life(queues=4, flow=Flow())
    play(life, "start h1:1 A 0 1; start h2:1 B 2 3; to 300; hang; take h2:1; to 560")
    stopped, silent = ("consume_stopped", "a@7"), ("pull_stopped", "b@7")
    expected = {f"broker-a:{number}": cause for number, cause in enumerate((stopped, stopped, silent, silent))}
    for kind in ("stalled_queue", "starved_queue"):
        known = life.state.incidents[f"{kind} orders"].evidence["queues"]
        assert {name: (one["cause"], one["client_id"]) for name, one in known.items()} == expected
    assert "4 queues of topic orders" in str(life.state.incidents["stalled_queue orders"].text.summary)
    assert "has stood still since" in str(life.state.incidents["stalled_queue orders"].text.summary)
    page = life.state.incidents["starved_queue orders"].text
    assert "a@7 at h1:1 holds the queues and consumes nothing" in str(page.summary)
    assert "b@7 at h2:1 sends heartbeats, but has stopped pulling (broker-a:2-3)." in str(page.summary)
    assert "Take a jstack of a@7" in str(page.advice)
    assert "If b@7 on h2 was suspended" in str(page.advice)
