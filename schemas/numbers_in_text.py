"""Whole numbers that follow a key in JSON texts, found and read in all of an Arrow column's texts at once.

Nothing here knows JSON: what is found may stand in a text or in a list. The caller finds out whether it counts.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.signedinteger[Any]]
_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint64]

_QUOTE, _COLON, _SPACE, _ZERO = b'": 0'

_WORD = 8
_TENS = np.array([10**digits for digits in range(_WORD + 1)], np.int64)


class Numbers(NamedTuple):
    """`rows` are those of the texts that have as many numbers as asked for, `values` a row of numbers for each place.

    `edges` are a text's start, each number's start and end, and the text's end, as places in `data`; a row a text.
    """

    rows: Integers
    values: Integers
    edges: Integers
    data: pa.Buffer

    def parts(self) -> tuple[list[bytes], Integers]:
        """What stands before, between and after the numbers: the different ones, and a row of places in them a text."""
        count, width = self.edges.shape
        if not count:
            return [], np.zeros((0, width // 2), np.int32)
        offsets = np.append(self.edges.ravel(), self.edges[-1, -1])
        is_part = np.packbits(np.tile([True, False], width * count // 2), bitorder="little")
        pieces = [pa.py_buffer(is_part), pa.py_buffer(offsets), self.data]
        encoded = pa.Array.from_buffers(pa.binary(), width * count, pieces).dictionary_encode()
        codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, width * count)
        return encoded.dictionary.to_pylist(), codes.reshape(count, width)[:, ::2]


def find_numbers(texts: pa.BinaryArray, count: int, most_bytes: int) -> Numbers:
    """Of the texts up to `most_bytes` that have exactly `count` of them.

    A number is a run of digits after `":`, or after `": ` with one space, that does not begin with a needless 0; of
    one that is longer the first 16 digits.
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    buffer = (texts.buffers()[2] or pa.py_buffer(b"")).slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    data, bounds = np.frombuffer(buffer, np.uint8), offsets - offsets[0]
    starts = _starts(data)
    first = np.searchsorted(starts, bounds)
    is_kept = (np.diff(first) == count) & (np.diff(bounds) <= most_bytes)
    if texts.null_count:
        is_kept &= np.array(texts.is_valid().to_pylist())
    rows = np.flatnonzero(is_kept)
    starts = starts[first[rows] + np.arange(count)[:, None]]
    values, lengths = _read(data, starts)
    ends = starts + lengths
    is_read = (lengths > 0).all(axis=0) & (ends[-1] <= bounds[rows + 1])
    if not is_read.all():
        rows, values, starts, ends = rows[is_read], values[:, is_read], starts[:, is_read], ends[:, is_read]
    edges = np.empty((len(rows), 2 * count + 2), np.int32)
    edges[:, 0], edges[:, -1] = bounds[rows], bounds[rows + 1]
    edges[:, 1:-1:2], edges[:, 2:-1:2] = starts.T, ends.T
    return Numbers(rows, values, edges, buffer)


def integers_of(array: pa.Array) -> Integers:
    """A column of integers without nulls."""
    wide = array.cast(pa.int64())
    return np.frombuffer(wide.buffers()[1], np.int64, len(wide), wide.offset * 8)


def _starts(data: _Bytes) -> Integers:
    """Of all digits after a quote and a colon."""
    keys = np.flatnonzero((data[:-3] == _QUOTE) & (data[1:-2] == _COLON))
    starts = keys + 2
    starts += data[starts] == _SPACE
    return starts[data[starts] - _ZERO < 10]  # what is below "0" wraps around


def _read(data: _Bytes, starts: Integers) -> tuple[Integers, Integers]:
    """The number at each place and how many digits it has: 0 of one that cannot be read here."""
    if len(data) < 2 * _WORD:
        return np.zeros_like(starts), np.zeros_like(starts)
    words = np.ndarray(len(data) - _WORD + 1, "<u8", data, strides=(1,))
    last = len(data) - 2 * _WORD
    values, lengths = _read_word(words[np.minimum(starts, last)])
    is_long = np.nonzero(lengths == _WORD)
    more, more_lengths = _read_word(words[np.minimum(starts[is_long], last) + _WORD])
    values[is_long] = values[is_long] * _TENS[more_lengths] + more
    lengths[is_long] += more_lengths
    is_needless_zero = (data[starts] == _ZERO) & (lengths > 1)
    lengths[(starts > last) | is_needless_zero] = 0
    return values, lengths


def _read_word(words: _Words) -> tuple[Integers, Integers]:
    """The number that eight bytes begin with, and how many digits it has."""
    digits = words ^ 0x3030303030303030
    others = ((digits + 0x7676767676767676) | digits) & 0x8080808080808080  # right up to the first that is no digit
    lengths = np.bitwise_count((others - 1) & ~others) >> 3
    digits <<= 64 - 8 * lengths.astype(np.uint64)
    digits = (digits * (10 * 0x100 + 1) >> 8) & 0x00FF00FF00FF00FF
    digits = (digits * (100 * 0x10000 + 1) >> 16) & 0x0000FFFF0000FFFF
    digits = digits * (10_000 * 0x100000000 + 1) >> 32
    return digits.astype(np.int64), lengths.astype(np.int64)
