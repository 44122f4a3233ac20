"""A refused message made good: fields set or taken away, or another text; judged by today's contract."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from schemas.contract import MAX_BYTES, MAX_DEPTH
from schemas.decode import decode
from schemas.events import EVENTS

_STEP = re.compile(r"[^.\[\]]+|\[\d{1,6}\]")
_PATH = re.compile(r"[^.\[\]]+(?:\[\d{1,6}\])*(?:\.[^.\[\]]+(?:\[\d{1,6}\])*)*", re.ASCII)
MOST_CHARACTERS = 1_000


class RepairError(ValueError):
    """It cannot be mended so. The message says what to do instead."""


def read_object(raw: bytes | None) -> dict[str, Any]:
    """The message as JSON, whatever its contract says. Raises RepairError where it is none, or too large."""
    if raw is None or len(raw) > MAX_BYTES:
        raise RepairError("it has no JSON object that fields could be set in; give the whole event by --file")
    try:
        event = json.loads(raw.decode())
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise RepairError("it is no JSON object that fields could be set in; give the whole event by --file")
    return event


def parse_sets(texts: Sequence[str]) -> dict[str, Any]:
    """`field=value`: JSON where the value is that, else text. Raises RepairError."""
    found = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or not field.strip():
            raise RepairError(f"--set {text[:100]!r}: give FIELD=VALUE, such as queue_id=3")
        try:
            found[field.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            found[field.strip()] = value
    return found


def set_fields(event: dict[str, Any], sets: Mapping[str, Any], unsets: Sequence[str]) -> bytes:
    """The event's bytes with these fields; `a.b` is within an object, `a[0]` within a list. Raises RepairError."""
    for path, value in sets.items():
        container, key = _find(event, path)
        if isinstance(container, list) and key == len(container):
            container.append(value)
        else:
            container[key] = value
    for path in unsets:
        container, key = _find(event, path)
        if isinstance(container, dict) and key not in container:
            raise RepairError(f"--unset {path}: it has no such field")
        del container[key]
    try:
        return msgspec.json.encode(event)
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError) as error:
        raise RepairError(f"it cannot be written as JSON then: {error}") from None


def _find(event: dict[str, Any], path: str) -> tuple[Any, Any]:
    """The container that the path ends in, and its key there."""
    steps = _STEP.findall(path)
    if len(steps) > MAX_DEPTH or len(path) > MOST_CHARACTERS or not _PATH.fullmatch(path):
        raise RepairError(f"field {path[:100]!r} is none; write a, a.b or a[0].b")
    node: Any = event
    keys = [int(step[1:-1]) if step.startswith("[") else step for step in steps]
    for key in keys[:-1]:
        node = _within(node, key, path)
    last = keys[-1]
    fits = isinstance(node, list) and isinstance(last, int) and last <= len(node)
    if not fits and not (isinstance(node, dict) and isinstance(last, str)):
        raise RepairError(f"field {path[:100]!r} is not there")
    return node, last


def _within(node: Any, key: int | str, path: str) -> Any:
    try:
        return node[key]
    except (KeyError, IndexError, TypeError):
        raise RepairError(f"field {path[:100]!r} is not there") from None


def judge(topic: str, value: bytes | None, now_ms: int) -> tuple[Any, list[str]]:
    """The event, or every reason why a message that came now would be refused."""
    if topic not in EVENTS:
        return None, [f"unknown topic: {topic}"]
    return decode(topic, value, now_ms)


def pretty(value: bytes) -> str | None:
    """Indented JSON, fields in their order; None where it is none."""
    try:
        return json.dumps(json.loads(value.decode()), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
