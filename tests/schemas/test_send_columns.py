"""Messages read by columns are judged as one by one, and give the same events."""

import json
import re
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.contract import MAX_BYTES
from schemas.decode import decode
from schemas.events import EVENTS, FIRST_MS, SEND_LATENCIES
from schemas.send_columns import LONGEST_SHAPE, read_sends
from tests.schemas.messages import INGEST_TIME_MS, RAW_JSON, Raw, changed, events_of, text_of
from tests.schemas.samples import BAD, GOOD
from tests.support.examples import examples

SEND = {
    "cluster": "c",
    "client_id": "10.0.0.1@7",
    "client_version": "5.1.4",
    "topic": "orders",
    "broker_name": "broker-a",
    "queue_id": 3,
    "latency_ms": 40,
    "isolation": False,
    "send_status": "SEND_OK",
    "event_time_ms": INGEST_TIME_MS,
}
COMPACT = msgspec.json.encode(SEND)
DAY_MS = 86_400_000

NUMBER = re.compile(rb'(?<=":)[0-9]+|(?<=": )[0-9]+')
_NUMBERS = st.sampled_from(
    [0, 1, 7, 12345678, 123456789, 16_383, 16_384, DAY_MS, DAY_MS + 1, FIRST_MS - 1, FIRST_MS, INGEST_TIME_MS]
) | st.sampled_from(
    [INGEST_TIME_MS + DAY_MS, INGEST_TIME_MS + DAY_MS + 1, 10**15 - 1, 10**15, 2**63 - 1, 2**63, 10**30]
)
_digits = st.one_of(
    _NUMBERS.map(lambda number: b"%d" % number), st.sampled_from([b"007", b"00", b"1.0", b"1e3", b"-0"])
)


def judged(value: bytes | None, ingest_time_ms: int) -> tuple[Any, list[str]]:
    event, reasons = decode(SEND_LATENCIES, value, ingest_time_ms)
    return event and msgspec.to_builtins(event), reasons


def judged_by_columns(values: list[bytes | None], ingest_time_ms: list[int]) -> list[tuple[Any, list[str]]]:
    """What `judged` gives for each; of the numbers, the queue's stays unread."""
    sends = read_sends(pa.array(values, pa.binary()), np.array(ingest_time_ms, np.int64))
    reasons = dict(sends.bad)
    assert sorted(reasons) == [row for row, _ in sends.bad] == np.flatnonzero(sends.which < 0).tolist()
    found: list[tuple[Any, list[str]]] = []
    for row, which in enumerate(sends.which.tolist()):
        if which < 0:
            found.append((None, reasons[row]))
            continue
        numbers = {"latency_ms": int(sends.latency_ms[row]), "event_time_ms": int(sends.event_time_ms[row])}
        found.append((msgspec.to_builtins(sends.events[which]) | numbers, []))
    return found


def agree(values: list[bytes | None], ingest_time_ms: list[int] | None = None) -> list[list[str]]:
    """The reasons of each; both ways must say the same."""
    ingested = ingest_time_ms or [INGEST_TIME_MS] * len(values)
    plain = [judged(value, at) for value, at in zip(values, ingested, strict=True)]
    by_columns = judged_by_columns(values, ingested)
    for (event, reasons), (found, found_reasons) in zip(plain, by_columns, strict=True):
        assert found_reasons == reasons
        assert (found is None) == (event is None)
        if found is not None:
            assert found | {"queue_id": 0} == event | {"queue_id": 0}
    return [reasons for _, reasons in plain]


@st.composite
def of_one_shape(draw: Any) -> list[bytes | None]:
    """A message with whatever done to it, and others that differ from it in what stands where its numbers stand."""
    event = draw(events_of(EVENTS[SEND_LATENCIES]))
    names = draw(st.permutations(sorted(event)))
    value = draw(changed({name: event[name] for name in names}))
    value = value.replace(b": ", b":") if draw(st.booleans()) else value
    count = draw(st.integers(1, 5))
    return [NUMBER.sub(lambda _: draw(_digits), value) for _ in range(count)] + [value, value]


@examples(300)
@given(st.lists(of_one_shape(), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_messages_of_any_shape_are_judged_as_one_by_one(shapes: list[list[bytes | None]], random: Any) -> None:
    values = [value for of_shape in shapes for value in of_shape]
    random.shuffle(values)
    agree(values)


ODD = (
    b'{"x\\"latency_ms":5,%s',
    b'{"x":"\\"latency_ms\\":5",%s',
    b'{"x":"\\\\","latency_ms":5,%s',
    b'{"latency_ms":5,%s',
    b'{"latency_ms" :5,%s',
    b'{"latency_ms":null,%s',
    b'{"trace":{"latency_ms":5},%s',
    b'{"trace":[{"queue_id":1}],%s',
    b'{"trace":"abc",%s',
    b'{"trace":"{{{{",%s',
    b"\xef\xbb\xbf{%s",
    b" \t\r\n{%s",
    b'{"trace":"\xff",%s',
    b'{"\xe8\xae\xa2":"\xe8\xae\xa2",%s',
)


@pytest.mark.parametrize("odd", ODD)
def test_what_looks_like_a_number_of_the_event_and_is_none_misleads_nobody(odd: bytes) -> None:
    for text in (COMPACT, json.dumps(SEND).encode()):
        value = odd % text[1:]
        for end in (b"", b"\n", b"5", b'":5', b',"x":1}'):
            more = [NUMBER.sub(digits, value) for digits in (b"0", b"5", b"05", b"5.0", b"5e0", b"%d" % INGEST_TIME_MS)]
            agree([one + end for one in (value, *more, value)])
            agree([one[:-1] + end for one in (value, *more, value)])


@pytest.mark.parametrize("decoy", [b'"trace":{"latency_ms":%s}', b'"latency_ms":%s'])
@pytest.mark.parametrize("real", [b"0", b"1", b"7"])
def test_a_number_that_only_looks_like_the_one_that_counts_is_not_taken_for_it(decoy: bytes, real: bytes) -> None:
    """The one that counts stands behind a colon with a space before it, where none is looked for."""
    values = [
        COMPACT.replace(b'"latency_ms":40', (decoy % number) + b',"latency_ms" :' + real)
        for number in (b"0", b"1", b"40", b"600")
    ]
    assert agree(values * 2) == [[]] * 8


def test_a_number_does_not_go_on_in_the_next_message() -> None:
    for digits in (b"1", b"12345678", b"1234567890123456789"):
        agree([COMPACT[:-1], digits, COMPACT[:-1], digits, digits + COMPACT, COMPACT[:-14], digits + b"}"] * 2)


def test_each_number_may_stand_in_any_field_and_none_is_taken_for_another() -> None:
    names = ["queue_id", "latency_ms", "event_time_ms"]
    rest = {name: value for name, value in SEND.items() if name not in names}
    numbers = [3, 40, INGEST_TIME_MS]
    values: list[bytes | None] = []
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        reported = {names[place]: numbers[place] for place in order}
        values += [msgspec.json.encode(one) for one in (reported | rest, rest | reported, {**rest, **reported})] * 2
    assert agree(values) == [[]] * len(values)


def test_a_bound_is_kept_to_the_digit() -> None:
    fields = {
        "queue_id": (0, 16_383, 16_384, 99_999_999),
        "latency_ms": (0, DAY_MS, DAY_MS + 1, 10**15),
        "event_time_ms": (FIRST_MS - 1, FIRST_MS, INGEST_TIME_MS + DAY_MS, INGEST_TIME_MS + DAY_MS + 1),
    }
    values = [msgspec.json.encode(SEND | {name: number}) for name, of in fields.items() for number in of] * 2
    reasons = agree(values)
    assert [bool(of) for of in reasons[:12]] == [False, False, True, True] * 2 + [True, False, False, True]


def test_a_time_is_judged_by_its_own_arrival() -> None:
    arrived = [INGEST_TIME_MS, INGEST_TIME_MS - DAY_MS, INGEST_TIME_MS - DAY_MS - 1, -(2**63), 2**63 - 1]
    assert [bool(of) for of in agree([COMPACT] * 5, arrived)] == [False, False, True, True, False]


def test_nothing_no_value_and_the_very_large_are_judged_like_the_rest() -> None:
    assert agree([]) == []
    assert agree([None]) == [["not_json"]]
    assert agree([b""]) == [["not_json"]]
    large = COMPACT.ljust(MAX_BYTES)
    assert agree([large, large, large + b" ", large + b" ", None, COMPACT, COMPACT, b"", b'{"a":1}', b'":1']) == [
        *([], [], ["too_large"], ["too_large"], ["not_json"], [], [], ["not_json"]),
        decode(SEND_LATENCIES, b'{"a":1}', INGEST_TIME_MS)[1],
        ["not_json"],
    ]


def test_a_message_full_of_braces_in_repeated_texts_is_refused_as_too_many() -> None:
    value = b'{"topic":"%s",' % (b"{" * 255) * 200
    value = value.replace(b'",{', b'",') + COMPACT[1:]
    assert agree([value, value]) == [["too_many: braces and brackets"]] * 2


def test_messages_of_a_shape_that_is_just_short_enough_and_too_long_are_judged_alike() -> None:
    padded = [COMPACT[:-1] + b" " * (LONGEST_SHAPE + more - len(COMPACT)) + b"}" for more in (0, 1)]
    assert agree([*padded, *padded]) == [[]] * 4
    assert {len(value) for value in padded} == {LONGEST_SHAPE, LONGEST_SHAPE + 1}


def test_a_slice_and_texts_under_nulls_are_read_right() -> None:
    values = pa.array([COMPACT, None, COMPACT, COMPACT, b"x", COMPACT], pa.binary())
    hidden = pa.Array.from_buffers(
        pa.binary(), len(values), [pa.py_buffer(b"\x2b"), *pa.array([COMPACT] * 6).buffers()[1:]]
    )
    ingested = np.full(6, INGEST_TIME_MS)
    assert read_sends(values.slice(2, 3), ingested[:3]).bad == [(2, ["not_json"])]
    assert read_sends(hidden, ingested).bad == [(2, ["not_json"]), (4, ["not_json"])]


def test_odd_json_in_any_field_is_judged_alike() -> None:
    for name in SEND:
        texts = [text_of(SEND | {name: Raw(text)}) for text in RAW_JSON]
        agree([text for text in texts for _ in range(2)])


def test_samples_are_judged_alike_together() -> None:
    agree([one.value for one in (*GOOD, *BAD) if one.topic == SEND_LATENCIES] * 2)
