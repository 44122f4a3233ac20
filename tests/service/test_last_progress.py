"""How long a query has not got on: a rest is none of it, to who attests by a watchdog that the query works."""

from unittest.mock import MagicMock

from streaming.queries.written_batch import WrittenBatch
from streaming.service.last_progress import LastProgress


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_query_that_is_furthest_behind_counts() -> None:
    clock = Clock()
    last = LastProgress(["one", "other"], monotonic=clock)
    clock.now += 40
    last.on_batch(WrittenBatch("one", 0, {}))
    assert last.age() == 40
    last.on_batch(WrittenBatch("other", 0, {}))
    assert last.age() == 0


def test_a_rest_is_no_age_and_what_follows_it_is() -> None:
    clock, liveness = Clock(), MagicMock()
    last = LastProgress(["balance"], liveness, clock)
    last.rests("balance", 60.0)
    clock.now += 59
    assert last.age() == 0
    clock.now += 11
    assert last.age() == 10
    last.rested("balance", 3, 70.0)
    assert last.age() == 0
    assert [(name, args) for name, args, _ in liveness.mock_calls] == [
        ("rests", ("balance", 60.0)),
        ("rested", ("balance", 3, 70.0)),
    ]
