"""The state of a shard: kept or read again the same, in few trips, and without pauses of the garbage collector."""

import gc
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import CLOCKS
from streaming.queries import state as state_module
from streaming.queries import store as store_module
from streaming.queries.shard import work_through
from streaming.queries.state import ShardState, StateCache, beats_of, lay_over, without_pauses
from streaming.queries.store import BUCKET_BYTES, DictShardStore, Shelf, StateError, StoreError
from streaming.replay.stream import parcels_for
from tests.queries.events import beat, clock, groups_of_two, route
from tests.queries.logs import START, log_of
from tests.support.engine import CountingStore, Stream, cut, messages_of, replay
from tests.support.rules import default_rules
from tests.support.tiers import in_proof
from udfs.alerts.rulebook import Rulebook

RULES = Rulebook(default_rules())


@pytest.mark.replay
@pytest.mark.parametrize(
    "scenario", ["twins", "slow_broker", "dead_broker", *in_proof(["rolling_restart", "split_view"])]
)
def test_a_log_gives_the_same_rows_whether_workers_keep_state_or_read_it_anew(scenario: str) -> None:
    messages = log_of(scenario, 1)
    kept = replay(cut(messages, 40))
    assert kept["assignments"]
    assert replay(cut(messages, 40), is_kept=False) == kept


def test_a_state_is_read_anew_where_another_worker_has_written() -> None:
    store, mine, other = CountingStore(), StateCache(), StateCache()
    for number, states in enumerate((mine, other, mine, mine)):
        store.trips.clear()
        with states.state_of(0, store) as state:
            work_through(0, 1, state, RULES, parcels_for(messages_of([route(number), clock(number)]), 0, 1))
        assert (store.trips["read"] == 0) == (number == 3)


def test_a_batch_that_fails_leaves_nothing_behind_in_the_worker() -> None:
    store, states = DictShardStore(), StateCache()
    with states.state_of(0, store) as state:
        work_through(0, 1, state, RULES, parcels_for(messages_of([route(0), clock(1)]), 0, 1))
    with suppress(ValueError), states.state_of(0, store) as state:
        state.shard_index.clusters.clear()
        raise ValueError("whatever it is")
    with states.state_of(0, store) as state:
        assert state.shard_index.clusters["c"].now_ms == START + 1_000


class FailingStore(CountingStore):
    """A store whose trip number `fails_at` raises, as a lost connection does."""

    fails_at = 0
    error: type[Exception] = ConnectionResetError

    def note(self, name: str) -> None:
        self.fails_at -= 1
        if self.fails_at == 0:
            raise self.error("the state store is gone")


@pytest.mark.replay
@pytest.mark.parametrize("error", [ConnectionResetError, MemoryError])
def test_a_store_that_fails_costs_its_batch_another_try_and_no_row(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many trips are made in the middle of the rules' work, for nothing is kept in memory."""
    monkeypatch.setattr(store_module, "MOST_BYTES", 0)
    monkeypatch.setattr(state_module, "MOST_BYTES", 0)
    monkeypatch.setattr(store_module, "BUCKET_BYTES", 300)
    batches = list(cut(messages_of(groups_of_two(200, 60)), 12))
    store, expected = DictShardStore(), {}
    for batch in batches:
        feed(store, StateCache(), batch, expected)
    failing, states, rows, failures = FailingStore(), StateCache(), {}, 0
    failing.error = error
    for number, batch in enumerate(batches):
        before = dict(failing.values), list(failing.pending), failing.stamp
        failing.fails_at = 4 + 6 * (number % 5)
        try:
            feed(failing, StateCache(), batch, rows)
        except (StoreError, MemoryError):
            failures += 1
            failing.fails_at, (failing.values, failing.pending, failing.stamp) = 0, before
            feed(failing, states, batch, rows)
    assert failures > 5
    assert {"broker_no_data"} <= {row["kind"] for row in expected["alerts"]}
    assert rows == expected


def feed(store: DictShardStore, states: StateCache, batch: list[Any], rows: dict[str, list[dict[str, Any]]]) -> None:
    """Work through one batch, and add its rows to `rows`."""
    with states.state_of(0, store) as state:
        given = work_through(0, 1, state, RULES, parcels_for(batch, 0, 1))
    for table, of_table in given.items():
        rows.setdefault(table, []).extend(of_table)


def test_state_of_another_release_is_refused() -> None:
    store = DictShardStore()
    store.write("shard_index", b'{"version":3}')
    with pytest.raises(StateError, match="version 3, this release reads version 9; move the checkpoint away"):
        ShardState(store)


def batches_of(groups: int, seconds: int) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """A batch every five seconds: each group's one member beats at its one broker."""
    for second in range(0, seconds, 5):
        beats = [beat(second, f"A{number}", f"h{number}:1", f"g{number}") for number in range(groups)]
        yield [*([route(second)] if second == 0 else []), *beats, clock(second + 1)]


def test_trips_of_a_batch_do_not_grow_with_groups_or_channels() -> None:
    trips = {}
    for groups in (4, 40):
        stream, store = Stream(), CountingStore()
        stream._store = store
        for batch in batches_of(groups, 60):
            store.trips.clear()
            stream.feed(batch)
        trips[groups] = store.trips.total()
    assert trips[40] <= trips[4] + 12
    assert trips[4] <= 12


def test_beats_bring_a_frame_to_where_the_group_is() -> None:
    stream = Stream()
    stream.feed(messages_with_groups())
    state = stream.kept
    (key, *_) = state.groups.all_keys()
    group = state.groups.get(key)
    assert group is not None
    before = deepcopy(group)
    for _, member in group.membership.members():
        member.last_heartbeat_ms, member.gap_ms = member.last_heartbeat_ms + 7, 30_000
    for watched in group.topics.values():
        for watch in watched.queues.values():
            watch.last_pull_ms, watch.commit_offset = (watch.last_pull_ms or 0) + 5, 9
    lay_over(before, beats_of(group))
    assert before == group


def messages_with_groups() -> list[tuple[str, dict[str, Any]]]:
    return [one for batch in batches_of(2, 30) for one in batch if one[0] != CLOCKS or one[1]["event_time_ms"] > START]


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

    def put(self, shelf: Shelf, numbers: Iterable[int], size: int) -> None:
        """Put and flush a value of `size` bytes a number; `count` is of these trips alone."""
        self.count.clear()
        for number in numbers:
            shelf.put(f"group-{number}", bytes(size))
        shelf.flush()


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
    trips.put(shelf, range(10_000), 1_000)
    assert max(map(len, trips.buckets.values())) < 4 * BUCKET_BYTES
    trips.put(shelf, range(100), 999)
    assert trips.count["reads"] == 0
    assert trips.count["writes"] <= 100
    assert trips.count["bytes"] < 100 * 4 * BUCKET_BYTES


def test_few_values_take_one_trip_however_many_keys_they_have() -> None:
    trips = Trips()
    shelf = trips.shelf()
    trips.put(shelf, range(24), 300)
    trips.put(trips.shelf(shelf.buckets, shelf.size), range(24), 301)
    assert (trips.count["reads"], trips.count["writes"]) == (1, 1)


def test_a_shelf_that_grows_splits_a_few_buckets_a_batch() -> None:
    trips, most = Trips(), 0
    shelf = trips.shelf()
    for number in range(2_000):
        trips.put(shelf, [number], 1_000)
        most = max(most, trips.count["writes"])
    assert most <= 3


def test_a_value_that_is_put_as_it_was_is_not_written_again() -> None:
    trips = Trips()
    shelf = trips.shelf()
    for _ in range(2):
        trips.put(shelf, [1], 9)
    assert not trips.count["writes"]


class Knot:
    """A cycle, which only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_a_batch_leaves_is_out_of_the_collectors_sight_and_cycles_go_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc.collect()
    with without_pauses():
        assert not gc.isenabled()
        knot = weakref.ref(Knot())
    assert gc.isenabled()
    gc.collect()
    assert knot() is not None
    monkeypatch.setattr(state_module, "COLLECT_EVERY", 1)
    with without_pauses():
        pass
    assert knot() is None


def test_a_batch_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ValueError, match="full"), without_pauses():
        raise ValueError("full")
    assert gc.isenabled()
