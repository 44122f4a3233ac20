"""Values on their shelves as objects: decoded when they are first asked for, changed in place, encoded when put."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from streaming.queries.beats import beats_of, lay_over
from streaming.queries.shelf import Shelf
from udfs.groups.state import GroupState

MOST_BYTES = 256 << 20
"""Of what is kept decoded of a kind, by the size of its encoding: decoded it takes about three times as much."""

Value = TypeVar("Value")

_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode


class Shelved(Generic[Value]):
    """One object for each key, for as long as it is kept."""

    def __init__(self, shelf: Shelf, decoder: "msgspec.json.Decoder[Value]") -> None:
        self._shelf, self._decoder = shelf, decoder
        self._known: dict[str, Value | None] = {}
        self._sizes: dict[str, int] = {}
        self._held = 0

    def get(self, key: str) -> Value | None:
        if key not in self._known:
            self._known[key] = self.get_anew(key)
        return self._known[key]

    def get_anew(self, key: str) -> Value | None:
        """Another object, as it was put last."""
        encoded = self._shelf.get(key)
        self._note(key, encoded)
        return None if encoded is None else self._decoder.decode(encoded)

    def keep(self, key: str, value: Value | None) -> None:
        """It is this object from now on, which nobody has put."""
        self._known[key] = value

    def put(self, key: str, value: Value | None) -> None:
        """Write it as it is now; None takes it away."""
        encoded = None if value is None else _encode(value)
        self._known[key] = value
        self._note(key, encoded)
        self._shelf.put(key, encoded)

    def all_keys(self) -> list[str]:
        return [key for key, _ in self._shelf.items()]

    def bound(self) -> None:
        """Keep no more than MOST_BYTES, the newest; only once all is written that was changed."""
        for key in list(self._known):
            if self._held <= MOST_BYTES:
                break
            del self._known[key]
            self._held -= self._sizes.pop(key, 0)

    def _note(self, key: str, encoded: bytes | None) -> None:
        size = len(encoded) if encoded else 0
        self._held += size - self._sizes.get(key, 0)
        self._sizes[key] = size


class Groups(Shelved[GroupState]):
    """A group's frame on one shelf and its beats on another (beats.py)."""

    def __init__(self, frames: Shelf, beats: Shelf) -> None:
        super().__init__(frames, msgspec.json.Decoder(GroupState))
        self._beats = beats

    def get_anew(self, key: str) -> GroupState | None:
        group = super().get_anew(key)
        beats = self._beats.get(key) if group is not None else None
        if group is not None and beats is not None:
            lay_over(group, beats)
        return group

    def put(self, key: str, value: GroupState | None) -> None:
        super().put(key, value)
        self._beats.put(key, None)

    def move(self, key: str, group: GroupState) -> None:
        """It is as it was put, but for its beats."""
        self._beats.put(key, beats_of(group))
