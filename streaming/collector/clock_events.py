"""The clock event that ends a round: who says so, how complete the round was, and what gave no data since when."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.events import CLOCKS
from schemas.fields import MOST_GROUPS, NAME_CHARACTERS
from streaming.collector.machine_skew import pick_reported
from streaming.collector.reading import Reading, Unheard, find_group_names
from streaming.collector.round_memory import Memory, NoDataKey
from udfs.brokers.broker_coverage import EVERY_MEMBER

MAX_NO_DATA = 2_000
"""Entries a clock event names; over that members are named by their group, groups by their broker."""


@dataclass(frozen=True)
class Source:
    """Which collector speaks, how far apart its rounds are meant to be, and of which groups; none means of all."""

    collector: str
    interval_ms: int
    groups: tuple[str, ...] = ()


def clock_event(
    source: Source, reading: Reading, before: Memory, after: Memory, round_time_ms: int
) -> tuple[str, dict[str, Any]]:
    """The event of the round that led from one memory to the next.

    A group is deleted when each broker that had its configuration has answered and has it no more (mqadmin
    deleteSubGroup), and no other has it. A broker that is gone has deleted nothing.
    """
    had = frozenset().union(*before.groups.values())
    has = frozenset().union(*{**before.groups, **find_group_names(reading)}.values())
    reported = {
        "groups": sorted(source.groups),
        "unheard": [
            {**dict(zip(("broker_name", "consumer_group", "client_id"), key, strict=True)), "reason": reason}
            | {"since_ms": since_ms}
            for *key, reason, since_ms in pick_no_data(reading.unheard, after.unheard)
        ],
        "skews": [skew for skew in pick_reported(after.skews) if is_name(skew["machine"])],
        "name_servers": [name for name in reading.name_servers if is_name(name)],
        "name_servers_unreachable": [name for name in reading.name_servers_unreachable if is_name(name)],
        "broker_addresses": [
            {"broker_name": name, "address": view.broker.address}
            for name, view in sorted(reading.brokers.items())
            if view.broker.broker_id == 0
        ],
        "deleted_groups": sorted(name for name in had - has if is_name(name))[:MOST_GROUPS],
    }
    return CLOCKS, {
        "cluster": reading.cluster,
        "source": "collector",
        "collector": source.collector,
        "interval_ms": source.interval_ms,
        "brokers_asked": sorted(reading.brokers_asked),
        "brokers_answered": sorted(reading.brokers),
        **{name: value for name, value in reported.items() if value},
        "event_time_ms": round_time_ms,
    }


def date_no_data(known: Mapping[NoDataKey, int], reading: Reading, round_time_ms: int) -> dict[NoDataKey, int]:
    """Since when each gives no data. What is missing with its whole broker keeps its date for when that answers."""
    dates = {each[:3]: known.get(each[:3], round_time_ms) for each in reading.unheard}
    absent = set(reading.brokers_asked) - set(reading.brokers)
    return {key: since_ms for key, since_ms in known.items() if key[0] in absent} | dates


Row = tuple[str | None, str | None, str | None, str, int]
"""broker_name, consumer_group, client_id, reason, since_ms."""


def pick_no_data(unheard: Iterable[Unheard], since: Mapping[NoDataKey, int], limit: int = MAX_NO_DATA) -> list[Row]:
    """Return at most `limit` rows. Where there are more, one row stands for all members of a group (ClientId
    EVERY_MEMBER), those with the most first, then for all groups of a broker, then for all members of all groups.
    """
    rows: list[Row] = [
        (*each[:3], each.reason, since[each[:3]])
        for each in unheard
        if all(name is None or is_name(name) for name in each[:3])
    ]
    rows = _collapsed(rows, limit, lambda row: (None, row[1], EVERY_MEMBER) if row[2] is not None else None)
    rows = _collapsed(rows, limit, lambda row: (row[0], None, None) if row[2] is None else None)
    rows = _collapsed(rows, limit, lambda row: (None, None, EVERY_MEMBER) if row[2] is not None else None)
    if len(rows) > limit:
        rows = [_whole((None, None, None), rows)]
    return sorted(rows, key=lambda row: tuple(each or "" for each in row[:3]))


def is_name(name: object) -> bool:
    """Whether the contract takes it: a client chooses its ClientId, and may not make a clock event void by it."""
    return isinstance(name, str) and 0 < len(name) <= NAME_CHARACTERS


def _collapsed(rows: list[Row], limit: int, whole_of: Callable[[Row], NoDataKey | None]) -> list[Row]:
    """The largest wholes in place of their parts, until there are no more rows than `limit`."""
    if len(rows) <= limit:
        return rows
    parts: dict[NoDataKey, list[Row]] = defaultdict(list)
    kept = []
    for row in rows:
        whole = whole_of(row)
        if whole is None:
            kept.append(row)
        else:
            parts[whole].append(row)
    excess = len(rows) - limit
    for whole, members in sorted(parts.items(), key=lambda item: -len(item[1])):
        if excess > 0 and len(members) > 1:
            excess -= len(members) - 1
            kept.append(_whole(whole, members))
        else:
            kept += members
    return kept


def _whole(key: NoDataKey, rows: Iterable[Row]) -> Row:
    """One row for many: the commonest reason, and since the first of them."""
    known = list(rows)
    reason = Counter(row[3] for row in known).most_common(1)[0][0]
    return (*key, reason, min(row[4] for row in known))
