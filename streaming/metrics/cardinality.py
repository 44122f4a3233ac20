"""Names as label values: harmless, of a bounded length, and of a bounded number.

The names of clusters, groups and brokers come from Kafka, so anybody who may publish may invent them.
"""

import hashlib
import re
from collections.abc import Hashable
from typing import Generic, TypeVar

OTHER = "other"
"""Stands for all names beyond the limit; one that is called so is among them."""

LONGEST = 255
"""RocketMQ's own limit of a group's name."""

Name = TypeVar("Name", bound=Hashable)

_HARMFUL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean(name: str) -> str:
    """The name as a label value. One that had to be changed carries a digest, so that two stay two."""
    if len(name) <= LONGEST and not _HARMFUL.search(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_HARMFUL.sub('?', name)[: LONGEST - 9]}~{digest}"


class Cardinality(Generic[Name]):
    """Who has a name of its own: the first `limit`. One that was folded stays so until it is let go."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._named: set[Name] = set()
        self._folded: set[Name] = set()

    @property
    def folded(self) -> int:
        """How many have none."""
        return len(self._folded)

    def is_named(self, name: Name) -> bool:
        """Whether it has a name of its own; it is known from then on."""
        if name in self._named:
            return True
        if name in self._folded:
            return False
        has_room = len(self._named) < self._limit
        (self._named if has_room else self._folded).add(name)
        return has_room

    def let_go(self, name: Name) -> None:
        """It is no longer there, and makes room."""
        self._named.discard(name)
        self._folded.discard(name)
