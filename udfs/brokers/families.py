"""Groups that are born and die with their processes: a name of its own for each pod, as caches are invalidated by.

When such a process is replaced its group has no member for ever, which is no loss, for nobody else was to consume for
it. A name says so by a part that nobody gives by hand: a pod's hash, an address, a UUID, a process's number; a mere
number, as people give too, says so where NUMBERED groups or more differ by it alone. What it rests on, and so cannot
see: a process that is lost while another of its family happens to start within BIRTH_MS.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

BIRTH_MS = 600_000
"""A process that replaces another starts within so long before its end, or after it."""

KNOWN_MS = 60_000
"""All that live have sent a heartbeat within so long after the first of the family: what comes later was born."""

FORGET_MS = 3_600_000
"""A group that gave no data for so long is gone."""

MOST_SIBLINGS, MOST_FAMILIES = 1_000, 1_000
"""Kept a cluster, who is gone for BIRTH_MS not for long. Of what is beyond no birth is seen, so deaths are reported."""

NUMBERED = 5
"""So many groups that differ by a number alone are pods'."""

_UUID = re.compile(r"[0-9a-fA-F]{8}([-_]?[0-9a-fA-F]{4}){3}[-_]?[0-9a-fA-F]{12}")
_ADDRESS = re.compile(r"(?<![0-9])[0-9]{1,3}([-_.])[0-9]{1,3}\1[0-9]{1,3}\1[0-9]{1,3}(?![0-9])")
_WORD = re.compile(r"[0-9A-Za-z]+")
_POD = re.compile(r"(?<=#[-_])[bcdfghjklmnpqrstvwxz2456789]{5}$")
_DRAWN = re.compile(r"(?=.{4})[A-Za-z]*[0-9]+[A-Za-z][0-9A-Za-z]*|[A-Za-z]*[0-9]{5,}|(?=.*[0-9])[0-9a-f]{8,}")

_NUMBER = re.compile(r"[0-9]+")


@lru_cache(maxsize=65536)
def family_of(consumer_group: str) -> str | None:
    """The name without what is its process's own, each such part a `#`; else without its numbers, each a `%`.

    None where it has neither.
    """
    name = _ADDRESS.sub("#", _UUID.sub("#", consumer_group))
    name = _WORD.sub(lambda word: "#" if _DRAWN.fullmatch(word[0]) else word[0], name)
    name = _POD.sub("#", name)
    if name == consumer_group:
        name = _NUMBER.sub("%", name)
    return name if name != consumer_group else None


@dataclass
class Family:
    """`heard_ms` is group → its first and its newest heartbeat; `since_ms` is the first of any."""

    since_ms: int
    heard_ms: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._full_until_ms = 0  # nobody is gone before; not kept

    def welcome(self, consumer_group: str, time_ms: int, most: int = MOST_SIBLINGS) -> bool:
        """Whether there is a place for another, once who is gone for BIRTH_MS is dropped. While nobody is, this asks
        nobody: thousands may wait for a place.
        """
        if len(self.heard_ms) >= most and time_ms >= self._full_until_ms:
            self.heard_ms = {one: ms for one, ms in self.heard_ms.items() if ms[1] + BIRTH_MS > time_ms}
            self._full_until_ms = min((newest_ms for _, newest_ms in self.heard_ms.values()), default=0) + BIRTH_MS
        if len(self.heard_ms) >= most:
            return False
        self.heard_ms[consumer_group], self._full_until_ms = (time_ms, time_ms), 0
        return True


@dataclass
class Families:
    """The families of one cluster, by the name their groups share."""

    by_name: dict[str, Family] = field(default_factory=dict)

    def note(self, consumer_group: str, time_ms: int) -> bool:
        """A heartbeat of a group that has a family. Whether it is its first, or older than the first that was known."""
        name = family_of(consumer_group)
        if name is None or (name not in self.by_name and len(self.by_name) >= MOST_FAMILIES):
            return False
        family = self.by_name.setdefault(name, Family(time_ms))
        is_first = time_ms < family.since_ms
        family.since_ms = min(family.since_ms, time_ms)
        if consumer_group in family.heard_ms:
            first_ms, newest_ms = family.heard_ms[consumer_group]
            family.heard_ms[consumer_group] = min(first_ms, time_ms), max(newest_ms, time_ms)
            return is_first or time_ms < first_ms
        return family.welcome(consumer_group, time_ms) or is_first

    def has_birth(self, consumer_group: str, left_ms: int) -> bool:
        """Whether another of its family was born about when the group was left by its last member."""
        name = family_of(consumer_group) or ""
        family = self.by_name.get(name)
        if family is None or ("%" in name and len(family.heard_ms) < NUMBERED):
            return False
        from_ms = max(left_ms - BIRTH_MS, family.since_ms + KNOWN_MS)
        return any(
            from_ms < first_ms <= left_ms + BIRTH_MS
            for sibling, (first_ms, _) in family.heard_ms.items()
            if sibling != consumer_group
        )

    def forget(self, now_ms: int) -> None:
        """Drop who gave no data for FORGET_MS."""
        for name, family in list(self.by_name.items()):
            family.heard_ms = {
                group: spans for group, spans in family.heard_ms.items() if spans[1] + FORGET_MS > now_ms
            }
            if not family.heard_ms:
                del self.by_name[name]
