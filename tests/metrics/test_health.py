"""Alive and ready: each rule with the nearest innocent case."""

import pytest

from streaming.metrics.health import QuerySigns, Signs, reasons_not_alive, reasons_not_ready

LATE, HUNG = 60, 600
WELL = QuerySigns(5, is_running=True, has_worked=True)
ALL_WELL = Signs(2, {"balance": WELL}, {"relay": True})


def age(seconds: float) -> Signs:
    return Signs(2, {"balance": QuerySigns(seconds, is_running=True, has_worked=True)}, {"relay": True})


@pytest.mark.parametrize(
    ("signs", "alive", "ready"),
    [
        (ALL_WELL, [], []),
        (Signs(), [], ["Spark is starting"]),
        (
            Signs(None, {"balance": None}),
            [],
            ["Spark is starting", "the query balance has not started"],
        ),
        (
            Signs(2, {"balance": QuerySigns(5, is_running=True, has_worked=False)}),
            [],
            ["the query balance has not finished its first batch"],
        ),
        (
            Signs(2, {"balance": QuerySigns(5, is_running=False, has_worked=True)}),
            [],
            ["the query balance has stopped"],
        ),
        (age(LATE), [], []),
        (age(LATE + 1), [], ["the query balance has shown no progress for 61 s"]),
        (
            age(HUNG + 1),
            ["the query balance has shown no progress for 601 s"],
            ["the query balance has shown no progress for 601 s"],
        ),
        (Signs(LATE + 1, {"balance": WELL}), [], ["the JVM has not answered for 61 s"]),
        (
            Signs(HUNG + 1, {"balance": WELL}),
            ["the JVM has not answered for 601 s"],
            ["the JVM has not answered for 601 s"],
        ),
        (
            Signs(2, {"balance": WELL}, {"relay": False, "canary": True}),
            ["the thread relay is dead"],
            ["the thread relay is dead"],
        ),
    ],
)
def test_why_it_is_not_alive_and_not_ready(signs: Signs, alive: list[str], ready: list[str]) -> None:
    assert list(reasons_not_alive(signs, HUNG)) == alive
    assert list(reasons_not_ready(signs, LATE)) == ready
