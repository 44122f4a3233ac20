"""The engine that evaluates seldom writes the rows of the one that evaluates every group at every tick."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.queries.shard import Shard
from tests.queries.drawn_log import DrawnLog
from tests.queries.events import BOTH, Event, asked, beat, clock, in_order, pull, route
from tests.queries.logs import Messages, Rows, comparable
from tests.queries.test_forgetting import forget
from tests.support.engine import cut, messages_of, replay
from tests.support.every_evaluation import EveryEvaluation
from tests.support.examples import examples
from tests.support.plays import Play, plays
from tests.support.tiers import in_proof

pytestmark = pytest.mark.replay


def said(messages: Messages, batches: int = 1, engine: type[Shard] = Shard) -> dict[str, list[str]]:
    return comparable(replay(cut(messages, batches), engine=engine))


TIMED = (
    "churn", "dead_broker", "frozen_client", "group_offline", "order_lock_lost", "pull_stopped", "split_view", "twins",
)  # fmt: skip
"""One scenario for each way to become calm; `make proof` plays all."""


@plays(TIMED)
def test_a_play_has_the_same_rows_as_if_every_tick_evaluated_everything(play: Play) -> None:
    messages = messages_of(play.events)
    assert said(messages, 90) == said(messages, engine=EveryEvaluation)


@pytest.mark.parametrize("minutes", [6, 14, *in_proof([40])])
@examples(3)
@given(st.integers(0, 2**32), st.integers(1, 4), st.sampled_from([0.002, 0.01, 0.04]), st.integers(1, 60))
def test_a_drawn_log_has_the_same_rows_as_if_every_tick_evaluated_everything(
    minutes: int, seed: int, groups: int, trouble: float, batches: int
) -> None:
    """Cut alike: a cluster whose clocks are missed is reported as of a batch."""
    messages = messages_of(DrawnLog(seed, groups, trouble, minutes).events())
    assert said(messages, batches) == said(messages, batches, EveryEvaluation)


# Groups that nobody is a member of, of which nothing is told any more, though something happens near them.

LONG = 3_400
"""Seconds: longer than any hold."""


def rows_of(events: list[Event]) -> Rows:
    """Equal to those of looking at everything."""
    messages = messages_of(in_order(*events))
    rows = replay(cut(messages, 9))
    assert comparable(rows) == comparable(replay([messages], engine=EveryEvaluation))
    return rows


def ticks(until: int) -> list[Event]:
    return [clock(second) for second in range(5, until, 10)]


def alive(name: str, client: str, seconds: range) -> list[Event]:
    return [beat(second, client, f"{client}:1", name) for second in seconds]


def test_a_group_that_was_left_is_known_to_be_replaced_when_its_family_has_grown_long_after() -> None:
    """Numbers are a process's own where five groups differ by them: the fifth comes when all else is over."""
    born = [("left-1", 0), ("left-2", 0), ("left-3", 0), ("left-4", 330), ("left-5", LONG - 600)]
    events = [route(0), *ticks(LONG)]
    for number, (name, since) in enumerate(born):
        until = 300 if name == "left-1" else LONG
        events += alive(name, f"c{number}", range(since, until, 30))
    leaving = beat(300, "c0", "c0:1", "left-1", leaving=True)
    rows = rows_of([*events, leaving, *(pull(second, 0, group="left-1") for second in range(0, 300, 10))])
    ended = [row for row in rows["alerts"] if row["kind"] == "group_offline" and row["state"] == "RESOLVED"]
    assert {row["consumer_group"] for row in ended} == {"left-1"}


def test_a_group_that_was_left_is_judged_anew_when_its_broker_begins_to_describe_pulls_long_after() -> None:
    events = [route(0), *ticks(LONG), *alive("left", "a", range(0, 300, 30)), *alive("other", "b", range(0, LONG, 30))]
    events.append(beat(300, "a", "a:1", "left", leaving=True))
    events += [pull(second, 0, "b", "b:1", "other", suggest_broker_id=0) for second in range(LONG - 600, LONG, 10)]
    rows = rows_of(events)
    of_left = [row for row in rows["assignments"] if row["consumer_group"] == "left"]
    assert max(row["changed_at"] for row in of_left) > min(row["changed_at"] for row in of_left)


def test_a_forgotten_broker_takes_its_members_along_of_groups_that_have_no_queue_there() -> None:
    events = [route(0), *(clock(second, **asked(*BOTH)) for second in range(5, 600, 10))]
    for second in range(0, 600, 30):
        events += [beat(second, "A", "h1:1", broker_name=name) for name in BOTH[: 1 + (second < 300)]]
    events += [pull(second, queue) for second in range(0, 600, 10) for queue in range(8)]
    rows = rows_of([*events, forget(302, "broker", "broker-b")])
    assert [row["change"] for row in rows["memberships"] if row["broker_name"] == "broker-b"] == ["JOINED", "LEFT"]


def test_a_group_that_a_client_left_without_a_word_is_planned_once_more_at_the_next_tick() -> None:
    """Its plan is as old as that tick, which is what its holds count from."""
    events = [route(0), *ticks(600), *alive("g", "A", range(0, 600, 30)), *alive("g", "B", range(0, 90, 30))]
    events += [pull(second, queue, "A", "A:1") for second in range(0, 300, 10) for queue in range(8)]
    assert {row["change"] for row in rows_of(events)["memberships"]} == {"JOINED", "EXPIRED"}
