"""The state of a shard: read from its store, changed in place, written as far as it was put.

    ShardIndex   one value, written with each batch: each cluster's time, and its groups' entries from a shelf
    Groups       a group's frame, written when the group changed, and its beats, the numbers that repetitions change
    Shelved      routes, channels, boards and fleets by key

A worker may keep it from one batch to the next. Each batch leaves a random stamp in the store; the next batch uses the
kept state only if its stamp is the stored one.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec

from streaming.queries.parcel import Chunk, decode_chunks, encode
from streaming.queries.store import ShardStore, Shelf, StateError, StoreError
from udfs.alerts.alert import Incident
from udfs.brokers.broker_coverage import FrozenQueues, Unasked
from udfs.brokers.cluster_state import ClusterState
from udfs.brokers.families import Families
from udfs.groups.queue_state import Consumption
from udfs.groups.state import GroupState
from udfs.producers.board import Board
from udfs.producers.fleet import Fleet
from udfs.rocketmq.route import Route


class GroupEntry(msgspec.Struct, array_like=True):
    """When a group is due for evaluation (None: only when an event arrives), and the topics whose routes concern it.

    `is_calm`: repetitions need no evaluation, and at `due_ms` only its deadlines are checked (udfs.groups.calm).
    """

    due_ms: int | None
    topics: list[str]
    is_calm: bool = False

    def wake(self) -> None:
        """If it is calm, make the next clock event evaluate it in full."""
        if self.is_calm:
            self.is_calm, self.due_ms = False, 0


class ClusterContext(msgspec.Struct):
    """Which brokers give data and how (udfs.brokers.broker_coverage), and the incidents that inhibit groups'."""

    without_data: list[str]
    explained: dict[str, str]
    masterless: dict[str, str]
    cluster_id: str | None
    missed: list[str] = []
    silent: list[str] = []
    answered: list[str] = []
    reporting: list[str] = []


class Timing(msgspec.Struct):
    """Whether clock events cover what arrives, by Kafka's time; 0 is never.

    arrived_ms   the newest of the cluster's events, or of its collector's clock
    ticked_ms    the newest clock event that advanced time; before the first of all, the first event
    began_ms     the oldest event's time, until the first clock event
    newest_ms    the newest event's time
    noted_ms     since when clock events have been missing for long; None if they are not
    dropped      events that were dropped since the last clock event
    drop         the incident about them
    said_again_ms  when a known route was last repeated
    routes_ms      when the routes were last checked
    """

    arrived_ms: int = 0
    ticked_ms: int = 0
    began_ms: int = 0
    newest_ms: int = 0
    noted_ms: int | None = None
    dropped: int = 0
    drop: Incident | None = None
    said_again_ms: int = 0
    routes_ms: int = 0


class ClusterEntry(msgspec.Struct):
    """A cluster's time: its newest clock event, the newest of another source than `run`, and whether `run` has it now.

    `groups` are on a shelf, each under its key, and not part of the value. `data_since_ms` is 0 for a broker that was
    never missed. `pulled_ms` is since when a broker reports its pulls, `newest_pulled_ms` its newest one. `unasked` and
    `context` are what the newest clock event passed to the groups. `frozen` has, by group, the open incidents of frozen
    processes.
    """

    now_ms: int = 0
    collector_time_ms: int = 0
    is_run_clock: bool = False
    data_since_ms: dict[str, int] = {}
    pulled_ms: dict[str, int] = {}
    groups: dict[str, GroupEntry] = {}
    watch: ClusterState = msgspec.field(default_factory=ClusterState)
    unasked: list[Unasked] = []
    context: ClusterContext = msgspec.field(default_factory=lambda: ClusterContext([], {}, {}, None))
    families: Families = msgspec.field(default_factory=Families)
    timing: Timing = msgspec.field(default_factory=Timing)
    newest_pulled_ms: dict[str, int] = {}
    frozen: dict[str, list[FrozenQueues]] = {}


class ShardIndex(msgspec.Struct):
    """What a shard must know before any group. `version` is that of all its state values.

    `rules` is the fingerprint of the last batch's rules, `swept_ms` when waiting events were last checked, by Kafka's
    time. `forgotten_ms` is when Kafka got the decision to forget a cluster: its earlier events count for nothing.
    `shelves` has the buckets and bytes of each shelf.
    """

    version: int = 9
    rules: str = ""
    has_held_ticks: bool = False
    swept_ms: int = 0
    clusters: dict[str, ClusterEntry] = {}
    forgotten_ms: dict[str, int] = {}
    shelves: dict[str, tuple[int, int]] = {}

    def cluster(self, name: str) -> ClusterEntry:
        """Return the cluster's entry, a new one if there is none."""
        entry = self.clusters.get(name)
        if entry is None:
            entry = self.clusters[name] = ClusterEntry()
        return entry


class Beats(msgspec.Struct, array_like=True, gc=False):
    """The times of a group that each repeated heartbeat and pull changes, in the order of its frame.

    Of each member the newest heartbeat and the gap before it; of each queue the newest pull, commit and end, the
    consumption, and the newest pull of each puller. A healthy group thus costs a few hundred bytes a batch.
    """

    members: list[tuple[int, int | None]]
    queues: list[tuple[int | None, int | None, int | None, tuple[Any, ...] | None, list[int]]]


_fields_of = attrgetter(*Consumption.__dataclass_fields__)
_decode_beats = msgspec.msgpack.Decoder(Beats).decode


def beats_of(group: GroupState) -> bytes:
    """Return the beats; they fit the group's last written frame as long as only repetitions have come."""
    queues = []
    for queue in group.queue_states():
        consumption = None if queue.consumption is None else _fields_of(queue.consumption)
        pullers = [puller.last_pull_ms for puller in queue.pullers.values()]
        queues.append((queue.last_pull_ms, queue.commit_offset, queue.max_offset, consumption, pullers))
    return encode(
        Beats([(member.last_heartbeat_ms, member.gap_ms) for _, member in group.membership.members()], queues)
    )


def lay_over(group: GroupState, beats: bytes) -> None:
    known = _decode_beats(beats)
    for (_, member), of_member in zip(group.membership.members(), known.members, strict=True):
        member.last_heartbeat_ms, member.gap_ms = of_member
    for queue, (last_pull_ms, commit_offset, max_offset, consumption, pullers) in zip(
        group.queue_states(), known.queues, strict=True
    ):
        queue.last_pull_ms, queue.commit_offset, queue.max_offset = last_pull_ms, commit_offset, max_offset
        queue.consumption = None if consumption is None else Consumption(*consumption)
        for puller, pulled_ms in zip(queue.pullers.values(), pullers, strict=True):
            puller.last_pull_ms = pulled_ms


MOST_BYTES = 256 << 20
"""Bytes of a kind that are kept decoded, by the size of their encoding; decoded they take about three times as much."""

Value = TypeVar("Value")
Answer = TypeVar("Answer")

_to_json: Callable[[Any], bytes] = msgspec.json.Encoder().encode


class Shelved(Generic[Value]):
    """The values of a shelf as objects: decoded on first use, changed in place, encoded when they are put."""

    def __init__(self, shelf: Shelf, decoder: "msgspec.json.Decoder[Value]") -> None:
        self._shelf, self._decoder = shelf, decoder
        self._known: dict[str, Value | None] = {}
        self._sizes: dict[str, int] = {}
        self._held = 0

    def get(self, key: str) -> Value | None:
        if key not in self._known:
            self._known[key] = self.get_anew(key)
        return self._known[key]

    def get_anew(self, key: str) -> Value | None:
        """Return another object, as it was put last."""
        encoded = self._shelf.get(key)
        self._note(key, encoded)
        return None if encoded is None else self._decoder.decode(encoded)

    def keep(self, key: str, value: Value | None) -> None:
        """Cache `value` without writing it."""
        self._known[key] = value

    def put(self, key: str, value: Value | None) -> None:
        """Write it as it is now; None removes the key."""
        encoded = None if value is None else _to_json(value)
        self._known[key] = value
        self._note(key, encoded)
        self._shelf.put(key, encoded)

    def all_keys(self) -> list[str]:
        return [key for key, _ in self._shelf.items()]

    def bound(self) -> None:
        """Keep at most MOST_BYTES, the newest; only after all changes are written."""
        for key in list(self._known):
            if self._held <= MOST_BYTES:
                break
            del self._known[key]
            self._held -= self._sizes.pop(key, 0)

    def _note(self, key: str, encoded: bytes | None) -> None:
        size = len(encoded) if encoded else 0
        self._held += size - self._sizes.get(key, 0)
        self._sizes[key] = size


class Groups(Shelved[GroupState]):
    """A group's frame on one shelf and its beats on another."""

    def __init__(self, frames: Shelf, beats: Shelf) -> None:
        super().__init__(frames, msgspec.json.Decoder(GroupState))
        self._beats = beats

    def get_anew(self, key: str) -> GroupState | None:
        group = super().get_anew(key)
        beats = self._beats.get(key) if group is not None else None
        if group is not None and beats is not None:
            lay_over(group, beats)
        return group

    def put(self, key: str, value: GroupState | None) -> None:
        super().put(key, value)
        self._beats.put(key, None)

    def move(self, key: str, group: GroupState) -> None:
        """Write a group of which only the beats have changed."""
        self._beats.put(key, beats_of(group))


SHARD_INDEX = "shard_index"

_shard_index = msgspec.json.Decoder(ShardIndex)


_decode_entry = msgspec.msgpack.Decoder(tuple[str, str, GroupEntry]).decode
"""A value of the shelf `entries`: cluster, consumer group, entry."""


def _call(trip: Callable[..., Answer], *arguments: object) -> Answer:
    """Call the store. Raises StoreError for any error of the store."""
    try:
        return trip(*arguments)
    except Exception as error:
        raise StoreError(f"the state store failed: {type(error).__name__}: {error}") from error


class ShardState:
    """`shard_index` is written with each batch, all else when it is put. Keys are those of working_set.key_of."""

    def __init__(self, store: ShardStore) -> None:
        """Read it from the store. Raises StateError for another version's state."""
        self.store = store
        """How to reach the store; another one in each batch."""
        self.shard_index = self.read_index()
        self.stamp: str | None = None
        self._shelves: dict[str, Shelf] = {}
        self._entries = self._shelf("entries")
        self.groups = Groups(self._shelf("groups"), self._shelf("beats"))
        self.routes = Shelved(self._shelf("routes"), msgspec.json.Decoder(Route))
        self.channels = Shelved(self._shelf("channels"), msgspec.json.Decoder(list[str]))
        self.boards = Shelved(self._shelf("boards"), msgspec.json.Decoder(Board))
        self.fleets = Shelved(self._shelf("fleets"), msgspec.json.Decoder(Fleet))
        self._pending = [chunk for value in _call(store.read_pending) for chunk in decode_chunks(value)]
        for _, value in self._entries.items():
            cluster, consumer_group, entry = _decode_entry(value)
            self.shard_index.cluster(cluster).groups[consumer_group] = entry

    def _shelf(self, name: str) -> Shelf:
        shelf = self._shelves[name] = Shelf(
            lambda number: _call(self.store.read, f"{name}/{number}"),
            lambda number, value: _call(self.store.write, f"{name}/{number}", value),
            *self.shard_index.shelves.get(name, (1, 0)),
        )
        return shelf

    def read_index(self) -> ShardIndex:
        """Return the shard index as it was before this batch, without the groups."""
        value = _call(self.store.read, SHARD_INDEX)
        if value is None:
            return ShardIndex()
        shard_index = _shard_index.decode(value)
        if shard_index.version != ShardIndex().version:
            raise StateError(
                f"the checkpoint has state of version {shard_index.version}, "
                f"this release reads version {ShardIndex().version}; "
                "move the checkpoint away (checkpoints/README.md)"
            )
        return shard_index

    def put_entry(self, key: str, cluster: str, consumer_group: str, entry: GroupEntry | None) -> None:
        self._entries.put(key, None if entry is None else encode((cluster, consumer_group, entry)))

    def add_pending(self, chunks: list[Chunk]) -> None:
        if chunks:
            self._pending += chunks
            _call(self.store.add_pending, encode(chunks))

    def take_pending(self) -> list[Chunk]:
        chunks, self._pending = self._pending, []
        if chunks:
            _call(self.store.clear_pending)
        return chunks

    def write(self) -> None:
        """Write all changes and a new stamp."""
        for shelf in self._shelves.values():
            shelf.flush()
        self.shard_index.shelves = {name: (shelf.buckets, shelf.size) for name, shelf in self._shelves.items()}
        clusters = {
            name: msgspec.structs.replace(entry, groups={}) for name, entry in self.shard_index.clusters.items()
        }
        index = _to_json(msgspec.structs.replace(self.shard_index, clusters=clusters))
        _call(self.store.write, SHARD_INDEX, index)
        self.stamp = os.urandom(8).hex()
        _call(self.store.write_stamp, self.stamp)
        for shelved in (self.groups, self.routes, self.channels, self.boards, self.fleets):
            shelved.bound()
        for shelf in self._shelves.values():
            shelf.bound()


class StateCache:
    """The states that a worker process keeps. Spark chooses in each batch which worker works for a shard."""

    def __init__(self) -> None:
        self._states: dict[int, ShardState] = {}

    @contextmanager
    def state_of(self, number: int, store: ShardStore) -> Iterator[ShardState]:
        """The shard's state. An error within drops it: the store has the state before."""
        stamp, known = store.read_stamp(), self._states.pop(number, None)
        if known is None or stamp is None or known.stamp != stamp:
            known = ShardState(store)
        known.store = store
        yield known
        self._states[number] = known


COLLECT_EVERY = 500
"""Batches between two complete garbage collections."""

_batches = count(1)


@contextmanager
def without_pauses() -> Iterator[None]:
    """Keep Python's garbage collector from walking the kept state in every batch.

    Kept objects live long and are freed by their reference counts. So nothing is collected during a batch, all that is
    left is frozen after it, and cycles are searched only every COLLECT_EVERY batches.
    """
    gc.disable()
    try:
        yield
    finally:
        if next(_batches) % COLLECT_EVERY == 0:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        gc.enable()
