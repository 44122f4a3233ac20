"""The state of a shard as bytes by name: in Spark (balance) or in memory, and shelves over either."""

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from streaming.system.known_error import BalancewatchError


class StateError(BalancewatchError):
    """State of another version. The message says what to do."""


class StoreError(BalancewatchError):
    """The state store did not answer, or refused. The batch fails, and Spark runs it again."""


RETRIED = (StoreError, MemoryError)
"""Errors that no rule raises: they fail the batch, and no group or broker is set aside."""


class ShardStore(Protocol):
    """The values of one shard. Each call is one trip, except that `read_pending` takes one for several values."""

    def read_stamp(self) -> str | None: ...
    def write_stamp(self, stamp: str) -> None: ...
    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, value: bytes | None) -> None: ...
    def read_pending(self) -> list[bytes]: ...
    def add_pending(self, value: bytes) -> None: ...
    def clear_pending(self) -> None: ...


class DictShardStore:
    """The store in memory, for backtests and tests."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.pending: list[bytes] = []
        self.stamp: str | None = None

    def read_stamp(self) -> str | None:
        return self.stamp

    def write_stamp(self, stamp: str) -> None:
        self.stamp = stamp

    def read(self, name: str) -> bytes | None:
        return self.values.get(name)

    def write(self, name: str, value: bytes | None) -> None:
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value

    def read_pending(self) -> list[bytes]:
        return list(self.pending)

    def add_pending(self, value: bytes) -> None:
        self.pending.append(value)

    def clear_pending(self) -> None:
        self.pending = []


BUCKET_BYTES = 16 << 10
"""Average size of a bucket at most; a larger value has a bucket for itself and the values that share it."""

MOST_BYTES = 64 << 20
"""Bytes of a shelf that are kept in memory."""

Bucket = dict[str, bytes]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Bucket).decode


class Shelf:
    """Values by key in buckets: a bucket is one value of the state store, read and written in one trip.

    Linear hashing (W. Litwin, "Linear hashing: a new tool for file and table addressing", VLDB 1980): a shelf that has
    grown splits one bucket after the other, so that no batch pays for all of them. The trips of a batch follow the
    buckets it touches, its bytes their size. The caller keeps `buckets` and `size`, the bytes of all values.
    """

    def __init__(
        self, read: Callable[[int], bytes | None], write: Callable[[int, bytes | None], None], buckets: int, size: int
    ) -> None:
        """`read` and `write` move one bucket by its number; None is an empty one."""
        self._read, self._write = read, write
        self.buckets, self.size = buckets, size
        self._known: dict[int, Bucket] = {}
        self._held = 0
        self._changed: set[int] = set()

    def get(self, key: str) -> bytes | None:
        return self._bucket(self._number_of(key)).get(key)

    def put(self, key: str, value: bytes | None) -> None:
        """Set the value of this key; None removes the key."""
        number = self._number_of(key)
        bucket = self._bucket(number)
        before = bucket.get(key)
        if before == value:
            return
        grown = _size(key, value) - _size(key, before)
        self.size += grown
        self._held += grown
        self._changed.add(number)
        if value is None:
            del bucket[key]
        else:
            bucket[key] = value

    def items(self) -> Iterator[tuple[str, bytes]]:
        """Yield all entries in no order: each bucket that is not in memory is one trip."""
        for number in range(self.buckets):
            yield from list(self._bucket(number).items())

    def flush(self) -> None:
        while self.size > self.buckets * BUCKET_BYTES:
            self._split()
        for number in sorted(self._changed):
            bucket = self._known[number]
            self._write(number, _encode(bucket) if bucket else None)
        self._changed.clear()

    def bound(self) -> None:
        """After a flush: drop the buckets in memory if they are more than MOST_BYTES; they are read again on demand."""
        if self._held > MOST_BYTES:
            self._known.clear()
            self._held = 0

    def _bucket(self, number: int) -> Bucket:
        bucket = self._known.get(number)
        if bucket is None:
            value = self._read(number) if self.size else None
            bucket = self._known[number] = _decode(value) if value else {}
            self._held += len(value or b"")
        return bucket

    def _number_of(self, key: str) -> int:
        level = 1 << (self.buckets.bit_length() - 1)
        hashed = zlib.crc32(key.encode("utf-8", "surrogatepass"))
        number = hashed % (2 * level)
        return number if number < self.buckets else number - level

    def _split(self) -> None:
        """Move the part of the next bucket in turn that belongs to a new one."""
        number = self.buckets - (1 << (self.buckets.bit_length() - 1))
        bucket, new = self._bucket(number), self.buckets
        self.buckets += 1
        moved = [key for key in bucket if self._number_of(key) == new]
        self._known[new] = {key: bucket.pop(key) for key in moved}
        self._changed |= {number, new}


def _size(key: str, value: bytes | None) -> int:
    return 0 if value is None else len(key) + len(value) + 8
