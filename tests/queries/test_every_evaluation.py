"""What is looked at seldom says the same as what is looked at always, row for row: at every tick, by no deadline."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.queries.shard import Shard
from tests.queries.drawn_log import DrawnLog
from tests.queries.logs import SECOND, START, Messages, Rows, comparable
from tests.queries.test_forgetting import forget
from tests.queries.test_small_logs import beat, clock, pull, route
from tests.support.engine import cut, messages_of, replay
from tests.support.every_evaluation import EveryEvaluation
from tests.support.examples import examples
from tests.support.plays import Play, each_play

pytestmark = pytest.mark.replay


def said(messages: Messages, batches: int = 1, engine: type[Shard] = Shard) -> dict[str, list[str]]:
    return comparable(replay(cut(messages, batches), engine=engine))


@each_play
def test_a_play_has_the_same_rows_as_if_every_tick_looked_at_everything(play: Play) -> None:
    messages = messages_of(play.events)
    assert said(messages, 90) == said(messages, engine=EveryEvaluation)


@examples(8)
@given(
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.sampled_from([0.002, 0.01, 0.04]),
    st.sampled_from([6, 14, 40]),
    st.integers(1, 60),
)
def test_a_drawn_log_has_the_same_rows_as_if_every_tick_looked_at_everything(
    seed: int, groups: int, trouble: float, minutes: int, batches: int
) -> None:
    """Cut alike: what is told of a cluster whose clocks are missed is so as of a batch."""
    messages = messages_of(DrawnLog(seed, groups, trouble, minutes).events())
    assert said(messages, batches) == said(messages, batches, EveryEvaluation)


# Groups that nobody is a member of, of which nothing is told any more, though something happens near them.

Event = tuple[str, dict[str, Any]]
LONG = 3_400
"""Seconds: longer than any hold."""


def of_group(name: str, event: Event) -> Event:
    """The heartbeat or pull as one of this group's."""
    topic, reported = event
    if "consumers" not in reported:
        return topic, {**reported, "consumer_group": name}
    consumers = [{**one, "consumer_group": name} for one in reported["consumers"]]
    return topic, {**reported, "consumers": consumers}


def rows_of(events: list[Event]) -> Rows:
    """Equal to those of looking at everything."""
    messages = messages_of(sorted(events, key=lambda one: one[1]["event_time_ms"]))
    rows = replay(cut(messages, 9))
    assert comparable(rows) == comparable(replay([messages], engine=EveryEvaluation))
    return rows


def ticks(until: int) -> list[Event]:
    return [clock(second) for second in range(5, until, 10)]


def alive(name: str, client: str, seconds: range) -> list[Event]:
    return [of_group(name, beat(second, client, f"{client}:1")) for second in seconds]


def test_a_group_that_was_left_is_known_to_be_replaced_when_its_family_has_grown_long_after() -> None:
    """Numbers are a process's own where five groups differ by them: the fifth comes when all else is over."""
    born = [("left-1", 0), ("left-2", 0), ("left-3", 0), ("left-4", 330), ("left-5", LONG - 600)]
    events = [route(0), *ticks(LONG)]
    for number, (name, since) in enumerate(born):
        until = 300 if name == "left-1" else LONG
        events += alive(name, f"c{number}", range(since, until, 30))
    leaving = of_group("left-1", beat(300, "c0", "c0:1", leaving=True))
    rows = rows_of([*events, leaving, *(of_group("left-1", pull(second, 0)) for second in range(0, 300, 10))])
    ended = [row for row in rows["alerts"] if row["kind"] == "group_offline" and row["state"] == "RESOLVED"]
    assert {row["consumer_group"] for row in ended} == {"left-1"}


def test_a_group_that_was_left_is_judged_anew_when_its_broker_begins_to_describe_pulls_long_after() -> None:
    events = [route(0), *ticks(LONG), *alive("left", "a", range(0, 300, 30)), *alive("other", "b", range(0, LONG, 30))]
    events.append(of_group("left", beat(300, "a", "a:1", leaving=True)))
    reported = {"client_addr": "b:1", "client_id": "b", "suggest_broker_id": 0}
    for second in range(LONG - 600, LONG, 10):
        topic, event = of_group("other", pull(second, 0))
        events.append((topic, {**event, **reported}))
    rows = rows_of(events)
    of_left = [row for row in rows["assignments"] if row["consumer_group"] == "left"]
    assert max(row["changed_at"] for row in of_left) > min(row["changed_at"] for row in of_left)


def test_a_forgotten_broker_takes_its_members_along_of_groups_that_have_no_queue_there() -> None:
    brokers = {"brokers_asked": ["broker-a", "broker-b"], "brokers_answered": ["broker-a", "broker-b"]}
    events = [route(0), *(clock(second, **brokers) for second in range(5, 600, 10))]
    for second in range(0, 600, 30):
        events += [
            beat(second, "A", "h1:1", broker_name=name) for name in ("broker-a", "broker-b")[: 1 + (second < 300)]
        ]
    events += [pull(second, queue) for second in range(0, 600, 10) for queue in range(8)]
    rows = rows_of([*events, forget(302, "broker", "broker-b")])
    assert [row["change"] for row in rows["memberships"] if row["broker_name"] == "broker-b"] == ["JOINED", "LEFT"]


def test_a_group_that_a_client_left_without_a_word_is_planned_once_more_at_the_next_tick() -> None:
    """Its plan is as old as that tick, which is what its holds count from."""
    events = [route(0), *ticks(600), *alive("g", "A", range(0, 600, 30)), *alive("g", "B", range(0, 90, 30))]
    events += [pull(second, queue) for second in range(0, 600, 10) for queue in range(8)]
    whose = {"client_addr": "A:1", "client_id": "A"}
    reported = [(topic, {**event, **(whose if "queue_id" in event else {})}) for topic, event in events]
    stalls = [one for one in reported if "queue_id" not in one[1] or one[1]["event_time_ms"] < START + 300 * SECOND]
    assert {row["change"] for row in rows_of(stalls)["memberships"]} == {"JOINED", "EXPIRED"}
