"""Repair of a rejected message: fields set or removed, or another text; validated by today's contract."""

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
    """The repair is impossible. The message says what to do instead."""


def read_object(raw: bytes | None) -> dict[str, Any]:
    """Return the message as JSON, without its contract. Raises RepairError for other text and above MAX_BYTES."""
    if raw is None or len(raw) > MAX_BYTES:
        raise RepairError("the message has no JSON object to set fields in; give a complete event with --file")
    try:
        event = json.loads(raw.decode())
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise RepairError("the message is not a JSON object; give a complete event with --file")
    return event


def parse_sets(texts: Sequence[str]) -> dict[str, Any]:
    """Parse `field=value`; a value that is not JSON is text. Raises RepairError."""
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
    """Return the event's bytes with these fields; `a.b` is in an object, `a[0]` in a list. Raises RepairError."""
    for path, value in sets.items():
        container, key = _find(event, path)
        if isinstance(container, list) and key == len(container):
            container.append(value)
        else:
            container[key] = value
    for path in unsets:
        container, key = _find(event, path)
        if isinstance(container, dict) and key not in container:
            raise RepairError(f"--unset {path}: the event has no such field")
        del container[key]
    try:
        return msgspec.json.encode(event)
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError) as error:
        raise RepairError(f"the repaired event cannot be written as JSON: {error}") from None


def _find(event: dict[str, Any], path: str) -> tuple[Any, Any]:
    """Return the container that has the path's last key, and the key."""
    steps = _STEP.findall(path)
    if len(steps) > MAX_DEPTH or len(path) > MOST_CHARACTERS or not _PATH.fullmatch(path):
        raise RepairError(f"field {path[:100]!r} is invalid; write a, a.b or a[0].b")
    node: Any = event
    keys = [int(step[1:-1]) if step.startswith("[") else step for step in steps]
    for key in keys[:-1]:
        node = _within(node, key, path)
    last = keys[-1]
    fits = isinstance(node, list) and isinstance(last, int) and last <= len(node)
    if not fits and not (isinstance(node, dict) and isinstance(last, str)):
        raise RepairError(f"field {path[:100]!r} does not exist")
    return node, last


def _within(node: Any, key: int | str, path: str) -> Any:
    try:
        return node[key]
    except (KeyError, IndexError, TypeError):
        raise RepairError(f"field {path[:100]!r} does not exist") from None


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
