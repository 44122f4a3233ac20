"""What is looked at seldom says the same as what is looked at always, row for row: at every tick, by no deadline."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.queries.shard import Shard
from tests.every_look import EveryLook
from tests.examples import examples
from tests.plays import Play, each_play
from tests.queries.drawn_log import DrawnLog
from tests.queries.logs import Messages, comparable
from tests.replay import cut, messages_of, replay

pytestmark = pytest.mark.replay


def said(messages: Messages, batches: int = 1, engine: type[Shard] = Shard) -> dict[str, list[str]]:
    return comparable(replay(cut(messages, batches), engine=engine))


@each_play
def test_a_play_has_the_same_rows_as_if_every_tick_looked_at_everything(play: Play) -> None:
    messages = messages_of(play.events)
    assert said(messages, 90) == said(messages, engine=EveryLook)


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
    messages = messages_of(DrawnLog(seed, groups, trouble, minutes).events())
    assert said(messages, batches) == said(messages, engine=EveryLook)
