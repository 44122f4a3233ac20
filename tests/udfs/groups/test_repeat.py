"""Repetitions move exactly the facts that an event told in full would have moved; what is news moves nothing."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.udfs.groups.facts import RULES, A, B, ConsumerData, Heartbeat, Life, Pull, at, subscribes, two_clients
from udfs.groups.backlog import HOLD_MS
from udfs.groups.calm import calm_until, repeat_heartbeat, repeat_pull
from udfs.groups.queue_state import PULL_THRESHOLD_FOR_QUEUE
from udfs.groups.state import GroupState


def calm_group() -> GroupState:
    """Two clients of four queues each, for two minutes; the newest look found nothing wrong."""
    life = two_clients(Life(pulls={"commit_offset": 100, "max_offset": 100}))
    assert life.outcomes[-1][1].is_calm
    return life.state


def reported_in_full(group: GroupState, event: Heartbeat | Pull) -> GroupState:
    full = deepcopy(group)
    if isinstance(event, Pull):
        full.observe(event)
    else:
        assert full.membership.displace(event) is None
        assert full.membership.register(event, ORDERS) is None
    return full


PULLED = Pull(A, "h1:1", 0, at(125), commit_offset=100, max_offset=100)
BEATEN = Heartbeat(A, "h1:1", at(125))
ORDERS = subscribes("orders")


def is_repeated(group: GroupState, event: Heartbeat | Pull, consumer: ConsumerData = ORDERS) -> bool:
    if isinstance(event, Pull):
        return repeat_pull(group, event, RULES)
    return repeat_heartbeat(group, event, consumer)


def test_a_client_that_is_reported_by_its_id_alone_is_news_when_its_channel_has_become_known() -> None:
    """A broker that gave no data before lists it now: its next pull counts as its channel's."""
    group = calm_group()
    (puller,) = group.topics["orders"].queues["broker-a:0"].pullers.values()
    puller.client_addr = None
    group.topics["orders"].queues["broker-a:0"].pullers = {A: puller}
    assert not repeat_pull(group, replace(PULLED, client_addr=None), RULES)
    del group.membership.views["broker-a"]["h1:1"]
    reported = replace(PULLED, client_addr=None)
    full = reported_in_full(group, reported)
    assert repeat_pull(group, reported, RULES)
    assert group == full


def test_a_heartbeat_that_goes_on_moves_what_it_would_have_moved_if_it_were_reported_in_full() -> None:
    group = calm_group()
    full = reported_in_full(group, BEATEN)
    assert is_repeated(group, BEATEN)
    assert group == full
    assert group.membership.views["broker-a"]["h1:1"].gap_ms == 5_000


@pytest.mark.parametrize(
    ("event", "consumer"),
    [
        pytest.param(replace(PULLED, client_addr="h2:1", client_id=B), ORDERS, id="another_clients_pull"),
        pytest.param(replace(PULLED, client_addr="h1:2"), ORDERS, id="a_pull_on_another_channel"),
        pytest.param(replace(PULLED, client_id=B), ORDERS, id="a_pull_of_another_client_id_on_its_channel"),
        pytest.param(replace(PULLED, pull_status="NO_PERMISSION"), ORDERS, id="refused"),
        pytest.param(replace(PULLED, broker_id=1), ORDERS, id="served_by_a_slave"),
        pytest.param(replace(PULLED, queue_id=8), ORDERS, id="a_queue_that_is_not_known"),
        pytest.param(replace(PULLED, topic="bills"), ORDERS, id="a_topic_that_is_not_known"),
        pytest.param(replace(PULLED, commit_offset=99), ORDERS, id="a_commit_that_fell"),
        pytest.param(replace(PULLED, client_addr=None, client_id=None), ORDERS, id="without_a_client"),
        pytest.param(BEATEN, subscribes("orders", "bills"), id="another_topic"),
        pytest.param(BEATEN, subscribes("orders", strategy="AVG_BY_CIRCLE"), id="another_strategy"),
        pytest.param(BEATEN, subscribes("orders", consume_orderly=True), id="another_listener"),
        pytest.param(replace(BEATEN, client_id=B), ORDERS, id="another_client_on_its_channel"),
        pytest.param(replace(BEATEN, client_addr="h1:2"), ORDERS, id="another_channel"),
        pytest.param(replace(BEATEN, broker_name="broker-b"), ORDERS, id="another_broker"),
        pytest.param(replace(BEATEN, is_listed_only=True), ORDERS, id="listed_alone"),
    ],
)
def test_an_event_that_is_news_moves_nothing(event: Heartbeat | Pull, consumer: ConsumerData) -> None:
    group = calm_group()
    before = deepcopy(group)
    assert not is_repeated(group, event, consumer)
    assert group == before


def standing(group: GroupState, reported: Callable[[int], dict[str, Any]]) -> int:
    """For how many seconds pulls of a queue whose commit stands still are repetitions."""
    for second in range(125, 600, 5):
        pull = Pull(A, "h1:1", 0, at(second), **reported(second))
        if not repeat_pull(group, pull, RULES):
            return second - 120
    return 600


def test_a_commit_that_stands_still_is_news_well_before_that_is_called_a_silence() -> None:
    seconds = standing(calm_group(), lambda second: {"commit_offset": 100, "max_offset": 100 + second})
    assert 60 <= seconds <= (RULES.consume_silence_ms - RULES.pull_silence_ms) // 1000 + 5


@pytest.mark.parametrize(
    ("waiting", "deadline_ms"),
    [
        pytest.param(990, RULES.consume_silence_ms, id="a_commit_that_may_not_stand_still"),
        pytest.param(5_000, HOLD_MS, id="a_backlog_that_is_to_be_reported"),
    ],
)
def test_a_client_whose_cache_is_full_gives_its_group_a_deadline(waiting: int, deadline_ms: int) -> None:
    group = calm_group()
    ahead = {"pull_offset": 100 + PULL_THRESHOLD_FOR_QUEUE, "commit_offset": 120, "max_offset": 120 + waiting}
    assert repeat_pull(group, replace(PULLED, **ahead), RULES)
    for queue_state in group.topics["orders"].queues.values():
        queue_state.last_pull_ms = at(1_000)
        for puller in queue_state.pullers.values():
            puller.last_pull_ms = at(1_000)
    for member in group.membership.views["broker-a"].values():
        member.last_heartbeat_ms = at(1_000)
    assert calm_until(group, RULES) == at(125) + deadline_ms


seconds = st.floats(60, 200)
offsets = st.one_of(st.none(), st.integers(90, 130))
pulls = st.builds(
    lambda who, queue, second, **reported: Pull(*who, queue, at(second), **reported),
    st.sampled_from([(A, "h1:1"), (None, "h1:1"), (A, None), (B, "h2:1"), (A, "h1:2"), (None, None)]),
    st.integers(0, 4),
    seconds,
    commit_offset=offsets,
    max_offset=offsets,
    pull_offset=st.integers(90, 1_300),
    broker_id=st.sampled_from([0, 0, 0, 1]),
    pull_status=st.sampled_from([None, "FOUND", "NO_MATCHED_MSG", "NO_PERMISSION"]),
    suggest_broker_id=st.sampled_from([None, 0, 1]),
    offsets_only=st.sampled_from([None, None, True]),
)
beats = st.builds(
    lambda who, second, without_sub: Heartbeat(*who, at(second), without_sub=without_sub),
    st.sampled_from([(A, "h1:1"), (B, "h2:1")]),
    seconds,
    st.sampled_from([None, True]),
)


@examples(60)
@given(st.lists(st.one_of(pulls, beats), max_size=12))
def test_any_row_of_events_leaves_the_group_as_if_each_were_reported_in_full(events: list[Heartbeat | Pull]) -> None:
    """One group gets the repetitions, the other gets them in full."""
    group = calm_group()
    full = deepcopy(group)
    for event in events:
        before = deepcopy(group)
        if is_repeated(group, event):
            full = reported_in_full(full, event)
        else:
            assert group == before
    assert group == full
    assert calm_until(group, RULES) >= calm_until(calm_group(), RULES)


def test_a_channel_that_has_left_does_not_repeat_itself() -> None:
    group = calm_group()
    group.membership.left["broker-a h1:1"] = at(126)
    assert not is_repeated(group, BEATEN)
