"""Shelves: what is put is found, in other workers too, and trips and bytes follow what is touched."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streaming.queries.store import BUCKET_BYTES, Shelf


class Trips:
    """Buckets in memory; counts reads and writes and the bytes written."""

    def __init__(self) -> None:
        self.buckets: dict[int, bytes] = {}
        self.count: Counter[str] = Counter()

    def read(self, number: int) -> bytes | None:
        self.count["reads"] += 1
        return self.buckets.get(number)

    def write(self, number: int, value: bytes | None) -> None:
        self.count["writes"] += 1
        self.count["bytes"] += len(value or b"")
        if value is None:
            self.buckets.pop(number, None)
        else:
            self.buckets[number] = value

    def shelf(self, buckets: int = 1, size: int = 0) -> Shelf:
        return Shelf(self.read, self.write, buckets, size)


KEYS = st.text(max_size=3)
VALUES = st.none() | st.integers(0, 3 * BUCKET_BYTES).map(bytes)


@given(st.lists(st.lists(st.tuples(KEYS, VALUES), max_size=20), max_size=8), st.booleans())
def test_a_shelf_holds_what_was_put_last(batches: list[list[tuple[str, bytes | None]]], is_kept: bool) -> None:
    trips, known = Trips(), dict[str, bytes]()
    shelf = trips.shelf()
    for batch in batches:
        for key, value in batch:
            shelf.put(key, value)
            known = {name: kept for name, kept in known.items() if name != key}
            known |= {} if value is None else {key: value}
        shelf.flush()
        shelf.bound()
        if not is_kept:
            shelf = trips.shelf(shelf.buckets, shelf.size)
        assert dict(shelf.items()) == known
        assert {key: shelf.get(key) for key, _ in batch} == {key: known.get(key) for key, _ in batch}
        assert shelf.size == sum(len(key) + len(value) + 8 for key, value in known.items())


def test_trips_follow_the_buckets_that_are_touched_and_bytes_what_was_changed() -> None:
    trips = Trips()
    shelf = trips.shelf()
    for number in range(10_000):
        shelf.put(f"group-{number}", bytes(1_000))
    shelf.flush()
    assert max(map(len, trips.buckets.values())) < 4 * BUCKET_BYTES
    trips.count.clear()
    for number in range(100):
        shelf.put(f"group-{number}", bytes(999))
    shelf.flush()
    assert trips.count["reads"] == 0
    assert trips.count["writes"] <= 100
    assert trips.count["bytes"] < 100 * 4 * BUCKET_BYTES


def test_few_values_take_one_trip_however_many_keys_they_have() -> None:
    trips = Trips()
    shelf = trips.shelf()
    for number in range(24):
        shelf.put(f"group-{number}", bytes(300))
    shelf.flush()
    shelf = trips.shelf(shelf.buckets, shelf.size)
    trips.count.clear()
    for number in range(24):
        shelf.put(f"group-{number}", bytes(301))
    shelf.flush()
    assert (trips.count["reads"], trips.count["writes"]) == (1, 1)


def test_a_shelf_that_grows_splits_a_few_buckets_a_batch() -> None:
    trips, most = Trips(), 0
    shelf = trips.shelf()
    for number in range(2_000):
        trips.count.clear()
        shelf.put(f"group-{number}", bytes(1_000))
        shelf.flush()
        most = max(most, trips.count["writes"])
    assert most <= 3


def test_a_value_that_is_put_as_it_was_is_not_written_again() -> None:
    trips = Trips()
    shelf = trips.shelf()
    shelf.put("a", b"1")
    shelf.flush()
    trips.count.clear()
    shelf.put("a", b"1")
    shelf.flush()
    assert not trips.count["writes"]
