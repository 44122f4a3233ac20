"""Data freshness at a time: how long before it the query wrote the newest row.

Queries write a row where something changes, and the canary changes something in each of its turns. So a long time
without any row means that the query did not run, and changes since are unknown.
"""

from dataclasses import dataclass

from schemas.tables import ALERTS, ASSIGNMENTS, BROKER_HEALTH, FAULT_ITEMS, MEMBERSHIPS
from streaming.store.store import History
from streaming.text.times import span_text, time_text

LIVE_TABLES = (ALERTS, ASSIGNMENTS, MEMBERSHIPS, FAULT_ITEMS, BROKER_HEALTH)
"""Those that the query writes."""


@dataclass(frozen=True)
class Freshness:
    """Of one moment. `newest_ms` is the time of the newest row up to then, the canary's too; None without any."""

    at_ms: int
    newest_ms: int | None
    stale_ms: int

    @property
    def is_stale(self) -> bool:
        return self.newest_ms is not None and self.at_ms - self.newest_ms > self.stale_ms


def read_freshness(history: History, at_ms: int, stale_ms: int) -> Freshness:
    """By those of LIVE_TABLES that `history` has opened. Reads old files only where no new one has a row."""
    newest_ms = read_newest_ms(history, at_ms - stale_ms, at_ms)
    return Freshness(at_ms, read_newest_ms(history, None, at_ms) if newest_ms is None else newest_ms, stale_ms)


def read_newest_ms(history: History, since_ms: int | None = None, until_ms: int | None = None) -> int | None:
    """The newest time of the live tables in [since, until]; None where they have no row of it."""
    each = " UNION ALL ".join(
        f"SELECT max({table.time}) AS newest FROM {history.between(table, since_ms, until_ms)}" for table in LIVE_TABLES
    )
    newest_ms: int | None = history.rows(f"SELECT epoch_ms(max(newest)) AS ms FROM ({each})")[0]["ms"]
    return newest_ms


def describe_stale(freshness: Freshness) -> str:
    """newest row 2026-11-21 19:58:40 UTC, data is 2 h 13 min old; is `run` up?; "" while it is not stale."""
    if freshness.newest_ms is None or not freshness.is_stale:
        return ""
    age_ms = (freshness.at_ms - freshness.newest_ms) // 1000 * 1000
    return f"newest row {time_text(freshness.newest_ms)}, data is {span_text(age_ms)} old; is `run` up?"
