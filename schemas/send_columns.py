"""Send latencies read by columns: what many messages have in common is checked once.

A message's shape is its text without its numbers. A producer's sends to a broker have one shape, or a few, so a batch
has far fewer shapes than messages. A shape is good when the decoder takes it with two sets of numbers, and finds each
number in the field that it was put for: then any other numbers within the bounds of their fields are good as well, for
nothing else of the text changes. Every message that this does not show to be good is decoded by itself.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.contract import max_ahead_ms
from schemas.decode import decode
from schemas.events import EVENTS, SEND_LATENCIES

Integers = npt.NDArray[np.signedinteger[Any]]
_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint64]

_QUOTE, _COLON, _SPACE, _ZERO = b'": 0'

_WORD = 8
_TENS = np.array([10**digits for digits in range(_WORD + 1)], np.int64)

FIELDS = ("queue_id", "latency_ms", "event_time_ms")
"""All of its numbers; none may be absent."""

_SCHEMA = EVENTS[SEND_LATENCIES]
_LEAST = np.array([_SCHEMA[name].metadata["minimum"] for name in FIELDS])
_MOST = np.array([_SCHEMA[name].metadata.get("maximum", 2**63 - 1) for name in FIELDS])
_MAX_AHEAD_MS = max_ahead_ms(_SCHEMA)
_SAMPLES = [tuple(int(least) + more for least in _LEAST) for more in (0, 1)]

MOST_PARTS = 50_000
"""Most different texts: four of their codes fit into one integer. A batch with more has nothing in common."""

KNOWN_SHAPES, LONGEST_SHAPE = 16_384, 2_048
"""How many shapes are remembered, and the bytes of the longest message that has one."""

LONGEST_KEY = len(max(FIELDS, key=len)) + len('"": ')


class Numbers(NamedTuple):
    """Integers that follow a key in texts, which may be in a nested text or list: the caller checks that.

    `rows` are those of the texts that have as many numbers as asked for, `values` a row of numbers for each place.

    `edges` are a text's start, each number's start and end, and the text's end, as places in `data`; a row a text.
    """

    rows: Integers
    values: Integers
    edges: Integers
    data: pa.Buffer

    def parts(self) -> tuple[list[bytes], Integers]:
        """The different parts before, between and after the numbers, and for each text a row of places among them."""
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
    is_end = data[:-3] == _QUOTE
    is_end &= data[1:-2] == _COLON
    starts = np.flatnonzero(is_end) + 2
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


class Sends(NamedTuple):
    """Messages by columns, a row each."""

    events: list[Any]  # the texts and flags of some of the rows; their numbers do not count
    which: Integers  # the place in `events` of a row's; -1 for a bad message
    latency_ms: Integers
    event_time_ms: Integers
    bad: list[tuple[int, list[str]]]  # row and reasons of each bad message, in their order


class _Shape(NamedTuple):
    """`event` of the shape, and of each of FIELDS which of the text's numbers it is."""

    event: Any
    places: tuple[int, ...]


def read_sends(values: pa.BinaryArray, ingest_time_ms: Integers) -> Sends:
    """Each message as `decode` judges it. `ingest_time_ms` are the Kafka records' timestamps."""
    count = len(values)
    sends = Sends([], np.full(count, -1), np.zeros(count, np.int64), np.zeros(count, np.int64), [])
    numbers = find_numbers(values, len(FIELDS), LONGEST_SHAPE)
    _read_by_shape(sends, numbers, ingest_time_ms)
    rows = np.flatnonzero(sends.which < 0)
    for row, value, ingested_ms in zip(
        rows.tolist(),
        values.take(pa.array(rows.tolist(), pa.int64())).to_pylist(),
        ingest_time_ms[rows].tolist(),
        strict=True,
    ):
        event, reasons = decode(SEND_LATENCIES, value, ingested_ms)
        if reasons:
            sends.bad.append((row, reasons))
        else:
            sends.which[row] = len(sends.events)
            sends.latency_ms[row], sends.event_time_ms[row] = event.latency_ms, event.event_time_ms
            sends.events.append(event)
    return sends


def _read_by_shape(sends: Sends, numbers: Numbers, ingest_time_ms: Integers) -> None:
    """The messages of shapes that are good, and that more than one has."""
    parts, codes = numbers.parts()
    if not 0 < len(parts) <= MOST_PARTS:
        return
    shapes, which = _told_apart(codes, len(parts))
    counts = np.bincount(which)
    places = np.zeros((len(shapes), len(FIELDS)), np.int64)
    known = np.full(len(shapes), -1)
    for number in np.flatnonzero(counts > 1).tolist():
        shape = _shape_of(*(parts[code] for code in shapes[number]))
        if shape is not None:
            known[number] = len(sends.events)
            places[number] = shape.places
            sends.events.append(shape.event)
    rows, events = numbers.rows, known[which]
    queue_id, latency_ms, event_time_ms = (_at(numbers.values, of_field[which]) for of_field in places.T)
    is_good = (events >= 0) & (event_time_ms - _MAX_AHEAD_MS <= ingest_time_ms[rows])
    for of_field, least, most in zip((queue_id, latency_ms, event_time_ms), _LEAST, _MOST, strict=True):
        is_good &= (of_field >= least) & (of_field <= most)
    if not is_good.all():
        rows, events, latency_ms, event_time_ms = (one[is_good] for one in (rows, events, latency_ms, event_time_ms))
    sends.which[rows], sends.latency_ms[rows], sends.event_time_ms[rows] = events, latency_ms, event_time_ms


def _at(values: Integers, places: Integers) -> Integers:
    """Of each text the number at its place."""
    of_texts: Integers = values[places[0]] if (places == places[0]).all() else values[places, np.arange(len(places))]
    return of_texts


def _told_apart(codes: Integers, size: int) -> tuple[Sequence[Sequence[int]], Integers]:
    """The different rows of `codes`, in the order they come in, and which of them each row is."""
    joined = codes[:, 0].astype(np.int64)
    for column in codes.T[1:]:
        joined = joined * size + column
    encoded = pa.Array.from_buffers(pa.int64(), len(joined), [None, pa.py_buffer(joined)]).dictionary_encode()
    which = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(joined))
    apart = np.frombuffer(encoded.dictionary.buffers()[1], np.int64, len(encoded.dictionary))
    columns = [apart // size**power % size for power in reversed(range(codes.shape[1]))]
    return np.stack(columns, axis=1).tolist(), which


@lru_cache(maxsize=KNOWN_SHAPES)
def _shape_of(*parts: bytes) -> _Shape | None:
    """The shape of these texts with numbers between them; None of one that is not known to be good."""
    fields = [_field_before_number(part[-LONGEST_KEY:]) for part in parts[:-1]]
    if sorted(fields) != [0, 1, 2]:
        return None
    event = None
    for sample in _SAMPLES:
        first, second, third = (sample[field] for field in fields)
        text = b"%b%d%b%d%b%d%b" % (parts[0], first, parts[1], second, parts[2], third, parts[3])
        event, _ = decode(SEND_LATENCIES, text, _SAMPLES[1][-1])
        if event is None or (event.queue_id, event.latency_ms, event.event_time_ms) != sample:
            return None
    return _Shape(event, (fields.index(0), fields.index(1), fields.index(2)))


@lru_cache(maxsize=KNOWN_SHAPES)
def _field_before_number(text: bytes) -> int:
    """Which of FIELDS the text names at its end; -1 for none."""
    name = text.rstrip(b": ").rpartition(b'"')[0].rpartition(b'"')[2].decode(errors="replace")
    return FIELDS.index(name) if name in FIELDS else -1
