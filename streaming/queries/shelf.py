"""Values by their keys in buckets: a bucket is one value of the state store, read and written in one trip.

Linear hashing (W. Litwin, "Linear hashing: a new tool for file and table addressing", VLDB 1980): a shelf that has
grown splits one bucket after the other, so that no batch pays for all of them. How many trips a batch makes follows the
buckets it touches, how many bytes it writes their size.
"""

import zlib
from collections.abc import Callable, Iterator

import msgspec

BUCKET_BYTES = 16 << 10
"""What a bucket holds on the average at the most; a value larger than that has one for itself and what shares it."""

MOST_BYTES = 64 << 20
"""Of what is known of a shelf."""

Bucket = dict[str, bytes]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Bucket).decode


class Shelf:
    """`buckets` and `size` are how many buckets there are, and the bytes of all values: the caller keeps them."""

    def __init__(
        self, read: Callable[[int], bytes | None], write: Callable[[int, bytes | None], None], buckets: int, size: int
    ) -> None:
        """`read` and `write` move one bucket, by its number; None is an empty one."""
        self._read, self._write = read, write
        self.buckets, self.size = buckets, size
        self._known: dict[int, Bucket] = {}
        self._held = 0
        self._changed: set[int] = set()

    def get(self, key: str) -> bytes | None:
        return self._bucket(self._number_of(key)).get(key)

    def put(self, key: str, value: bytes | None) -> None:
        """The value under this key from now on; None takes the key away."""
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
        """All of them, in no order: each bucket that is not known yet is one trip."""
        for number in range(self.buckets):
            yield from list(self._bucket(number).items())

    def flush(self) -> None:
        """Write the buckets that have changed."""
        while self.size > self.buckets * BUCKET_BYTES:
            self._split()
        for number in sorted(self._changed):
            bucket = self._known[number]
            self._write(number, _encode(bucket) if bucket else None)
        self._changed.clear()

    def bound(self) -> None:
        """Once all is written: drop what is known where it is more than MOST_BYTES. It is read again when asked for."""
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
        """The next bucket in turn gives what is not its own any more to a new one."""
        number = self.buckets - (1 << (self.buckets.bit_length() - 1))
        bucket, new = self._bucket(number), self.buckets
        self.buckets += 1
        moved = [key for key in bucket if self._number_of(key) == new]
        self._known[new] = {key: bucket.pop(key) for key in moved}
        self._changed |= {number, new}


def _size(key: str, value: bytes | None) -> int:
    return 0 if value is None else len(key) + len(value) + 8
