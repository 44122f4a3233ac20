"""What a shard keeps: the same whether a worker kept it or reads it anew, and no more trips than it touches buckets."""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

from schemas.events import CLOCKS
from streaming.queries import state as state_module
from streaming.queries import store as store_module
from streaming.queries.shard import work_through
from streaming.queries.state import ShardState, StateCache, beats_of, lay_over
from streaming.queries.store import DictShardStore, StateError, StoreError
from streaming.replay.stream import parcels_for
from tests.engine import Stream, cut, messages_of, replay
from tests.queries.logs import log_of
from tests.queries.test_small_logs import START, beat, clock, groups_of_two, route
from tests.rules import default_rules
from udfs.alerts.rulebook import Rulebook

RULES = Rulebook(default_rules())


@pytest.mark.replay
@pytest.mark.parametrize("scenario", ["twins", "rolling_restart", "split_view", "slow_broker"])
def test_a_log_gives_the_same_rows_whether_workers_keep_state_or_read_it_anew(scenario: str) -> None:
    messages = log_of(scenario, 1)[0]
    kept = replay(cut(messages, 40))
    assert kept["assignments"]
    assert replay(cut(messages, 40), is_kept=False) == kept


def test_a_state_is_read_anew_where_another_worker_has_written() -> None:
    store, mine, other = DictShardStore(), StateCache(), StateCache()
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


class FailingStore(DictShardStore):
    """A store whose trip number `fails_at` raises, as a lost connection does."""

    fails_at = 0
    error: type[Exception] = ConnectionResetError

    def _note(self, call: str, value: Any = b"") -> None:
        super()._note(call, value)
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
    with pytest.raises(StateError, match="version 3, this release reads version 7; move the checkpoint away"):
        ShardState(store)


def batches_of(groups: int, seconds: int) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """A batch every five seconds: each group's one member beats at its one broker."""
    for second in range(0, seconds, 5):
        batch = [route(second)] if second == 0 else []
        for number in range(groups):
            topic, event = beat(second, f"A{number}", f"h{number}:1")
            (consumer,) = event["consumers"]
            batch.append((topic, {**event, "consumers": [{**consumer, "consumer_group": f"g{number}"}]}))
        yield [*batch, clock(second + 1)]


def test_trips_of_a_batch_do_not_grow_with_groups_or_channels() -> None:
    trips = {}
    for groups in (4, 40):
        stream = Stream()
        for batch in batches_of(groups, 60):
            stream._store.trips.clear()
            stream.feed(batch)
        trips[groups] = sum(stream._store.trips.values())
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
