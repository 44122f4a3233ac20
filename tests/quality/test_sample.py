"""Which messages are a sample, whatever times their publishers gave them; on a consumer that holds them in memory."""

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from schemas.events import PULLS
from streaming.quality import inspection as sample
from streaming.quality.inspection import WINDOW_MS, Bounds, read_sample

NOW_MS = time.time_ns() // 1_000_000
YEAR_MS = 365 * 86_400_000
PLENTY = Bounds(10_000, 1 << 20)


class Consumer:
    """One partition, whose messages have these times."""

    def __init__(self, times: Sequence[int]) -> None:
        self._times, self._next = times, 0

    def partitions_for_topic(self, _: str) -> set[int]:
        return {0}

    def beginning_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    def end_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, len(self._times))

    def assign(self, places: Sequence[TopicPartition]) -> None:
        """There is one."""

    def seek(self, _: TopicPartition, offset: int) -> None:
        self._next = offset

    def position(self, _: TopicPartition) -> int:
        return self._next

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        first, self._next = self._next, min(len(self._times), self._next + max_records)
        records = [
            SimpleNamespace(topic=PULLS, partition=0, offset=offset, timestamp=self._times[offset], value=b"{}")
            for offset in range(first, self._next)
        ]
        return {TopicPartition(PULLS, 0): records}


def sampled(times: Sequence[int], bounds: Bounds = PLENTY) -> list[int]:
    """The offsets in the sample."""
    return [one.offset for one in read_sample(Consumer(times), PULLS, None, bounds)]


def steady(count: int, newest_ms: int = NOW_MS) -> list[int]:
    """A message a second, the newest last."""
    return [newest_ms - 1_000 * back for back in reversed(range(count))]


def test_a_sample_goes_back_a_window_from_its_newest_message() -> None:
    """Also where the newest is long ago."""
    for newest_ms in (NOW_MS, NOW_MS - YEAR_MS):
        assert sampled(steady(500, newest_ms)) == list(range(500 - WINDOW_MS // 1_000 - 1, 500))


def test_a_message_from_the_future_empties_no_sample() -> None:
    """It is in it, and the others stay; wherever it lies. They are counted back from the newest by our clock."""
    expected = sampled(steady(200))
    for offset in (199, 190, 150):
        times = steady(200)
        times[offset] = NOW_MS + YEAR_MS
        assert sampled(times)[-len(expected) :] == expected


def test_a_message_of_long_ago_hides_none_before_it() -> None:
    expected = sampled(steady(200))
    for offset in (184, 190, 150):
        times = steady(200)
        times[offset] = NOW_MS - YEAR_MS
        assert sampled(times) == [one for one in expected if one != offset]


def test_of_messages_that_are_all_ahead_as_many_as_there_is_room_for() -> None:
    assert sampled([NOW_MS + YEAR_MS] * 500, Bounds(100, 1 << 20)) == list(range(400, 500))


def test_the_newest_messages_that_have_room_are_in_it_and_never_less_than_16() -> None:
    assert sampled(steady(100), Bounds(10_000, 40)) == list(range(80, 100))
    assert sampled(steady(100), Bounds(10_000, 2)) == list(range(84, 100))


def test_a_slow_kafka_is_an_error_and_never_an_empty_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "READ_SECONDS", -1.0)
    with pytest.raises(KafkaTimeoutError, match=r"rocketmq\.pulls-0: no sample within -1 s"):
        sampled(steady(100))
