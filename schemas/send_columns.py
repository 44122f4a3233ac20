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
import pyarrow as pa

from schemas.contract import max_ahead_ms
from schemas.decode import decode
from schemas.events import EVENTS, SEND_LATENCIES
from schemas.numbers_in_text import Integers, Numbers, find_numbers

FIELDS = ("queue_id", "latency_ms", "event_time_ms")
"""All of its numbers; none may be absent."""

_SCHEMA = EVENTS[SEND_LATENCIES]
_LEAST = np.array([_SCHEMA[name].metadata["minimum"] for name in FIELDS])
_MOST = np.array([_SCHEMA[name].metadata.get("maximum", 2**63 - 1) for name in FIELDS])
_MAX_AHEAD_MS = max_ahead_ms(_SCHEMA)
_SAMPLES = [tuple(int(least) + more for least in _LEAST) for more in (0, 1)]

MOST_PARTS = 50_000
"""Four codes of so many different texts fit into one integer. A batch with more has nothing in common."""

KNOWN_SHAPES, LONGEST_SHAPE = 16_384, 2_048
"""So many shapes are remembered, of messages of so many bytes at most."""

LONGEST_KEY = len(max(FIELDS, key=len)) + len('"": ')


class Sends(NamedTuple):
    """Messages by columns, a row each.

    events         what stands for the texts and flags of some of the rows; their numbers do not count
    which          the place in `events` of a row's; -1 for a bad message
    latency_ms
    event_time_ms
    bad            row and reasons of each bad message, in their order
    """

    events: list[Any]
    which: Integers
    latency_ms: Integers
    event_time_ms: Integers
    bad: list[tuple[int, list[str]]]


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
