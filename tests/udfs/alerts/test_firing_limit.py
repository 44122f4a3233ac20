"""The limit: who is told, who waits, and what is said of those who wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.alerts.firing_limit import SEVERITIES, Waiting, describe_more, pick_notified, rank_of

waiting_lists = st.lists(st.builds(Waiting, st.integers(0, 5), st.integers(0, 4), st.uuids().map(str)), max_size=30)


@given(waiting_lists, st.integers(0, 20), st.integers(1, 20))
def test_as_many_are_notified_as_there_is_room_for_and_never_more(
    waiting: list[Waiting], notified: int, limit: int
) -> None:
    assert len(pick_notified(notified, waiting, limit)) == min(len(waiting), max(0, limit - notified))


@given(waiting_lists, st.integers(1, 20))
def test_nobody_who_waits_came_before_somebody_who_is_notified(waiting: list[Waiting], limit: int) -> None:
    notified = pick_notified(0, waiting, limit)
    first = [one for one in waiting if one.incident_id in notified]
    rest = [one for one in waiting if one.incident_id not in notified]
    assert not first or not rest or max(first) <= min(rest)


def test_of_one_moment_the_worst_is_notified() -> None:
    assert pick_notified(0, [Waiting(1, rank_of("warning"), "a"), Waiting(1, rank_of("critical"), "b")], 1) == ("b",)


def test_a_severity_nobody_knows_comes_last() -> None:
    assert [rank_of(severity) for severity in (*SEVERITIES, "odd")] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("number", "words"), [(1, "1 more starved_queue is"), (900, "900 more starved_queue are")])
def test_the_alert_for_the_rest_counts_them_and_names_the_command_that_lists_them(number: int, words: str) -> None:
    summary, advice = describe_more("starved_queue", "prod", number, 100)
    assert summary.startswith(words)
    assert "above the limit of 100" in summary
    assert advice == "balancewatch alerts --current --state FIRING --kind starved_queue --cluster prod"
