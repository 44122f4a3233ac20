"""Names as label values: sanitized, bounded in length and in number.

Names of clusters, groups and brokers come from Kafka, so any publisher can invent them.
"""

import hashlib
import re
from collections.abc import Hashable
from typing import Generic, TypeVar

OTHER = "other"
"""The label value of all names beyond the limit, and of a real name "other"."""

LONGEST = 255
"""RocketMQ's limit for the length of a group name."""

Name = TypeVar("Name", bound=Hashable)

_HARMFUL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean(name: str) -> str:
    """Return the name as a label value. A changed name gets a digest, so that different names stay different."""
    if len(name) <= LONGEST and not _HARMFUL.search(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_HARMFUL.sub('?', name)[: LONGEST - 9]}~{digest}"


class Cardinality(Generic[Name]):
    """The first `limit` names get series; later ones are folded until they are let go."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._named: set[Name] = set()
        self._folded: set[Name] = set()

    @property
    def folded(self) -> int:
        """Return the number of folded names."""
        return len(self._folded)

    def is_named(self, name: Name) -> bool:
        """Return whether the name has series, and remember it."""
        if name in self._named:
            return True
        if name in self._folded:
            return False
        has_room = len(self._named) < self._limit
        (self._named if has_room else self._folded).add(name)
        return has_room

    def let_go(self, name: Name) -> None:
        """Forget the name, which frees its place."""
        self._named.discard(name)
        self._folded.discard(name)
