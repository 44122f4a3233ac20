"""What a shard knows: read from its store, changed in place, and written as far as it was put.

It may outlive its batch in the worker. A batch that is written leaves a stamp of its own beside its state; the next one
asks for the stamp alone, and where that is the one this state has left, all that is known here is what the store has.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from streaming.queries.chunk import Chunk, decode_chunks, encode_chunks
from streaming.queries.shard_store import ShardStore, StateError, StoreError
from streaming.queries.shard_values import ClusterEntry, GroupEntry, ShardIndex
from streaming.queries.shelf import Shelf
from streaming.queries.shelved import Groups, Shelved
from udfs.producers.board import Board
from udfs.producers.fleet import Fleet
from udfs.rocketmq.route import Route

SHARD_INDEX = "shard_index"

Answer = TypeVar("Answer")

_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_shard_index = msgspec.json.Decoder(ShardIndex)


class Kept(msgspec.Struct, array_like=True, gc=False):
    """A group's entry on its shelf."""

    cluster: str
    consumer_group: str
    entry: GroupEntry


_encode_kept = msgspec.msgpack.Encoder().encode
_decode_kept = msgspec.msgpack.Decoder(Kept).decode


def _call(trip: Callable[..., Answer], *arguments: object) -> Answer:
    """Call the store. Raises StoreError for whatever the store raises."""
    try:
        return trip(*arguments)
    except Exception as error:
        raise StoreError(f"the state store failed: {type(error).__name__}: {error}") from error


class ShardState:
    """`shard_index` is written with each batch, all else when it is put. Keys are those of working_set.key_of."""

    def __init__(self, store: ShardStore) -> None:
        """As the store has it. Raises StateError for another release's."""
        self._store = store
        self.shard_index = self.read_agenda()
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
            one = _decode_kept(value)
            self.shard_index.clusters.setdefault(one.cluster, ClusterEntry()).groups[one.consumer_group] = one.entry

    def _shelf(self, name: str) -> Shelf:
        def read(number: int) -> bytes | None:
            return _call(self._store.read, f"{name}/{number}")

        def write(number: int, value: bytes | None) -> None:
            _call(self._store.write, f"{name}/{number}", value)

        self._shelves[name] = Shelf(read, write, *self.shard_index.shelves.get(name, (1, 0)))
        return self._shelves[name]

    def over(self, store: ShardStore) -> "ShardState":
        """The same in the next batch, in which the way to the store is another."""
        self._store = store
        return self

    def read_agenda(self) -> ShardIndex:
        """As it was before this batch, without the groups."""
        value = _call(self._store.read, SHARD_INDEX)
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
        self._entries.put(key, None if entry is None else _encode_kept(Kept(cluster, consumer_group, entry)))

    def add_pending(self, chunks: list[Chunk]) -> None:
        if chunks:
            self._pending += chunks
            _call(self._store.add_pending, encode_chunks(chunks))

    def take_pending(self) -> list[Chunk]:
        chunks, self._pending = self._pending, []
        if chunks:
            _call(self._store.clear_pending)
        return chunks

    def write(self) -> None:
        """All that has changed, and a new stamp."""
        for shelf in self._shelves.values():
            shelf.flush()
        self.shard_index.shelves = {name: (shelf.buckets, shelf.size) for name, shelf in self._shelves.items()}
        clusters = {
            name: msgspec.structs.replace(entry, groups={}) for name, entry in self.shard_index.clusters.items()
        }
        index = _encode(msgspec.structs.replace(self.shard_index, clusters=clusters))
        _call(self._store.write, SHARD_INDEX, index)
        self.stamp = os.urandom(8).hex()
        _call(self._store.write_stamp, self.stamp)
        for shelved in (self.groups, self.routes, self.channels, self.boards, self.fleets):
            shelved.bound()
        for shelf in self._shelves.values():
            shelf.bound()
