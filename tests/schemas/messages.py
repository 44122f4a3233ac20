"""Messages made from the contracts: good ones, and good ones with something done to them."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

from hypothesis import strategies as st

from schemas import types as T
from schemas.events import EVENTS, FIRST_MS

INGEST_TIME_MS = 1_789_000_000_000

TWICE = "\0twice"
"""Ends a key that is written without it: so an object can hold one key twice."""


class Raw(NamedTuple):
    """JSON text that json.dumps would not write: NaN, lone surrogates, deep nesting, mistakes."""

    text: str


_words = st.sampled_from(["", "orders", "broker-a", "%RETRY%g", "订单", "😀", "\x7f", "\0", 'a"b\\c', "true"])

RAW_JSON = (
    "NaN", "-Infinity", "1e999", "1.0", "5e0", "-0", "-0.0", "01", "1.", "9" * 19, "-" + "9" * 19, "1" * 5000,
    r'"\ud800"', r'"\udc00x"', r'"\ud83d\ude00"', r'"\x41"', '"\x01"', '"\n"', "'a'", "tru", "",
    "[" * 31 + "]" * 31, "[" * 33 + "]" * 33, '{"a":' * 33 + "1" + "}" * 33, "[" * 3000 + "]" * 3000,
    '{"a":1,"a":null}', r'{"\ud800":1}', "\udcff", '"\udcff"', '"\udced\udca0\udc80"', '"\udcc0\udc80"',
)  # fmt: skip
"""Pieces of text to stand in a value's place. A character from U+DC80 to U+DCFF is that one byte, so not UTF-8."""

_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 1.0, -1.0, 0.5, "1", "", [], {}, [None], [1], ["a"], [{}], {"topic": 1},
    "x" * 255, "x" * 256, "x" * 16_385, [0] * 1_025, [{}] * 1_001, 16_384, 16_385, FIRST_MS - 1,
    2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30,
]  # fmt: skip
_anything = st.one_of(st.sampled_from(_VALUES).map(deepcopy), st.sampled_from(RAW_JSON).map(Raw))


def events_of(type_: T.DataType, metadata: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    """Good values of a contract's type."""
    bounds = metadata or {}
    if isinstance(type_, T.StructType):
        parts = {field.name: events_of(field.data_type, field.metadata) for field in type_.fields}
        if "event_time_ms" in parts:
            latest_ms = INGEST_TIME_MS + type_["event_time_ms"].metadata["max_ahead_ms"]
            parts["event_time_ms"] = st.integers(FIRST_MS, latest_ms)
        names = set(type_.by_name)
        required = {field.name: parts[field.name] for field in type_.fields if not field.nullable}
        optional = {name: st.none() | parts[name] for name in names - required.keys()}
        return st.fixed_dictionaries(required, optional=optional)
    if isinstance(type_, T.ArrayType):
        return st.lists(events_of(type_.element_type), max_size=1 if "totals" in bounds else 2)
    if isinstance(type_, T.StringType):
        return _words.filter(bool) if bounds.get("is_name") else _words
    if isinstance(type_, T.BooleanType):
        return st.booleans()
    bits = 31 if isinstance(type_, T.IntegerType) else 63
    least, most = bounds.get("minimum", -(2**bits)), bounds.get("maximum", 2**bits - 1)
    return st.sampled_from([number for number in (least, -1, 0, 1, 7, most) if least <= number <= most])


def text_of(value: Any) -> bytes:
    """JSON as it stands on the wire."""
    return _text(value).encode("utf-8", "surrogateescape")


def _text(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key.removesuffix(TWICE))}: {_text(part)}" for key, part in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a value."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    return [(node, key) for key in keys] + [place for key in keys for place in _places(node[key])]


def _drop(draw: Callable[..., Any], event: Any) -> None:
    container, key = draw(st.sampled_from(_places(event)))
    del container[key]


def _change(draw: Callable[..., Any], event: Any) -> None:
    container, key = draw(st.sampled_from(_places(event)))
    container[key] = draw(_anything)


def _add(draw: Callable[..., Any], event: Any) -> None:
    """A field the contract does not list, in the event or in an object of it."""
    objects = [event] + [c[k] for c, k in _places(event) if isinstance(c[k], dict)]
    draw(st.sampled_from(objects))[draw(st.sampled_from(["agent", "x", "", "订"]))] = draw(_anything)


def _say_twice(draw: Callable[..., Any], event: Any) -> None:
    """A field a second time, before all others or after them: of equal keys the last counts."""
    name = draw(st.sampled_from(sorted(event)))
    fields = {} if draw(st.booleans()) else dict(event)
    fields[name + TWICE] = draw(_anything)
    fields.update(event)
    event.clear()
    event.update(fields)


_WRAPPINGS: tuple[Callable[[bytes], bytes], ...] = (
    lambda value: b"\xef\xbb\xbf" + value,
    lambda value: b"[" + value + b"]",
    lambda value: value + b"x",
    lambda value: value + value,
    lambda value: value + b"\0",
    lambda value: b" \t\r\n" + value + b"\n ",
    lambda value: value[:-1],
    lambda value: value[: len(value) // 2],
    lambda value: value.replace(b": ", b":\x0c"),
    lambda value: value.decode("utf-8", "surrogateescape").encode("utf-16", "surrogatepass"),
    lambda value: b"",
    lambda value: b"  ",
    lambda value: b"null",
)


@st.composite
def changed(draw: Callable[..., Any], event: Any) -> bytes:
    """The event, which may be changed for good, on the wire with up to three things done to it."""
    for change in draw(st.lists(st.sampled_from([_drop, _change, _add, _say_twice]), max_size=3)):
        if _places(event):
            change(draw, event)
    value = text_of(event)
    if draw(st.integers(0, 5)) == 0:
        value = draw(st.sampled_from(_WRAPPINGS))(value)
    return value


@st.composite
def messages(draw: Callable[..., Any]) -> tuple[str, bytes]:
    """(topic, value): an event of the contract with up to three things done to it."""
    topic = draw(st.sampled_from(sorted(EVENTS)))
    return topic, draw(changed(draw(events_of(EVENTS[topic]))))
