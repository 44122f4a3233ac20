"""Which changes of a queue's backlog are reported: those that last, by a factor of two, and each end."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.udfs.groups.facts import A, Life, Pull, at, play
from udfs.groups.backlog import Reported, due_ms
from udfs.groups.queue_state import LEAST_BACKLOG, Consumption, note_offsets

MINUTE = 60
ROUND = 10


def reported(backlogs: list[int], every: int = ROUND) -> list[tuple[int, int]]:
    """Return (second, messages) of each row, of a queue with these backlogs in rounds `every` so many seconds."""
    known: Consumption | None = None
    newest: Reported | None = None
    rows = []
    for number, backlog in enumerate(backlogs):
        second = number * every
        offsets = {"commit_offset": 10_000, "max_offset": 10_000 + backlog, "offsets_only": True}
        known = note_offsets(known, Pull(None, None, 0, at(second), **offsets))  # type: ignore[arg-type]  # by name
        assert known is not None
        if at(second) >= due_ms(newest, known):
            rows.append((second, backlog))
            newest = (backlog, at(second)) if backlog >= LEAST_BACKLOG else None
    return rows


@pytest.mark.parametrize(
    ("backlogs", "rows"),
    [
        pytest.param([999] * 60, [], id="less_than_a_cache_holds"),
        pytest.param([0, 5_000, 2_500, 900, 3_000, 100] * 10, [], id="a_busy_queue_between_two_commits"),
        pytest.param([0, *[1_000] * 30], [(70, 1_000)], id="a_backlog_that_lasts_a_minute"),
        pytest.param([5_000] * 7 + [3_000, 9_000] * 30, [(60, 5_000)], id="one_that_hovers"),
        pytest.param([5_000] * 20 + [0] * 20, [(60, 5_000), (200, 0)], id="one_that_is_consumed"),
        pytest.param(
            [1_600] * 8 + [801] * 9 + [800], [(60, 1_600), (170, 800)], id="one_that_halved_is_over_below_1000"
        ),
        pytest.param(
            [1_000 * 2 ** (number // 3) for number in range(36)],
            [(60, 4_000), (120, 16_000), (180, 64_000), (240, 256_000), (300, 1_024_000)],
            id="one_that_doubles_each_30_s_has_a_row_a_minute",
        ),
        pytest.param([9_000] * 8 + [-50], [(60, 9_000), (80, -50)], id="a_commit_beyond_the_end"),
    ],
)
def test_rows_of_a_queue(backlogs: list[int], rows: list[tuple[int, int]]) -> None:
    assert reported(backlogs) == rows


@examples(200)
@given(st.lists(st.one_of(st.integers(0, 3_000), st.integers(0, 10**12)), max_size=60), st.sampled_from([1, 10, 45]))
def test_rows_are_rare_and_near_the_backlog(backlogs: list[int], every: int) -> None:
    """Two rows have a minute between them unless the second is an end; a minute after a row it is within two."""
    rows = reported(backlogs, every)
    assert all(after[0] - before[0] >= MINUTE or after[1] < LEAST_BACKLOG for before, after in pairwise(rows))
    by_second, newest = dict(rows), None
    for number, backlog in enumerate(backlogs):
        second = number * every
        newest = (second, by_second[second]) if second in by_second else newest
        if newest and newest[1] >= LEAST_BACKLOG and second >= newest[0] + MINUTE:
            assert newest[1] / 2 < backlog < newest[1] * 2


def rows_of(life: Life) -> list[tuple[float, str, int | None]]:
    return [(when, row.queue, row.messages) for when, outcome in life.outcomes for row in outcome.backlogs]


def behind(*steps: str) -> Life:
    """One client with a backlog of 5,000 messages in its only queue, for two minutes; then the steps."""
    life = Life(queues=1, pulls={"commit_offset": 100, "max_offset": 5_100})
    play(life, "start h1:1 A 0; to 120")
    for step in steps:
        play(life, step)
    return life


def test_a_queue_that_is_no_more_a_slave_that_serves_and_missing_offsets_end_a_row() -> None:
    first = (70, "broker-a:0", 5_000)
    for steps, second in (
        (["route broker-a:0:0:6 broker-b:1:1:6; take h1:1; to 300"], None),
        (["pulls broker_id=1; to 300"], 130),
        (["freeze h1:1; to 900"], None),
    ):
        rows = rows_of(behind(*steps))
        assert rows[0] == first
        assert [row[1:] for row in rows[1:]] == [("broker-a:0", None)], steps
        assert second is None or rows[1][0] == second


def test_offsets_that_the_broker_only_keeps_from_before_are_no_backlog() -> None:
    """Broadcasting clients keep theirs in files, and assign() clients may."""
    for options, expected in (("message_model=BROADCASTING", []), ("client_rebalance=no", [(70, "broker-a:0", 5_000)])):
        life = Life(queues=1, pulls={"commit_offset": 100, "max_offset": 5_100})
        play(life, f"start h1:1 A 0 {options}; to 300")
        assert rows_of(life) == expected


def test_a_queue_without_a_commit_has_no_backlog() -> None:
    life = Life(queues=1, pulls={"max_offset": 5_100})
    play(life, "start h1:1 A 0; to 300")
    assert rows_of(life) == []
    assert life.state.backlogs == {}
    assert A in life.state.seen_pulling
