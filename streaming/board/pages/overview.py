"""The overview: firing alerts with their fixes, groups with problems, monitored clusters, and data freshness.

The delay of a table is from the newest event in a commit's rows to the time of the commit in its log. This is an upper
bound: it includes the collector's delay, Kafka's backlog and the batch, and a row of a time that came by the clock,
such as a FaultItem's end, is written only with the next event. The delay does not grow while nothing is written; the
age of the data does.
"""

import json
from datetime import datetime
from typing import Any

from conf.location import Location
from schemas.tables import ALERTS, ASSIGNMENTS, MEMBERSHIPS, TABLES, Table
from streaming.board.page import Page, View
from streaming.store.current import read_clusters, read_groups, read_trouble
from streaming.store.freshness import LIVE_TABLES
from streaming.store.store import History
from streaming.text.times import DAY, MINUTE, to_ms
from streaming.warehouse.delta_log import read_commit
from streaming.warehouse.tables import table_path
from udfs.alerts.phrase import phrase
from udfs.alerts.runbook import runbook_url

MOST_GROUPS = 12


def read_ages(history: History) -> list[dict[str, Any]]:
    """Return the time of every table's newest row, the canary's too; None for an empty table."""
    each = " UNION ALL ".join(
        f"SELECT '{table.name}' AS name, max({table.time}) AS newest FROM {table.name}" for table in TABLES.values()
    )
    found = {row["name"]: row["ms"] for row in history.rows(f"SELECT name, epoch_ms(newest) AS ms FROM ({each})")}
    return [{"name": name, "newest_ms": found[name]} for name in TABLES]


TIMELY = (ALERTS, ASSIGNMENTS, MEMBERSHIPS)
"""Tables whose newest rows carry the time of their evaluation."""

MOST_COMMITS = 8
"""Limit of commits to search back, past those of maintenance, which add no rows."""

SKEW_MS = MINUTE
"""Limit of clock skew; beyond it, as for simulated events of another day, there is no delay to report."""


def read_lags(history: History, now_ms: int, lately_ms: int) -> dict[str, int]:
    """Return the delay, ms, from the newest event of a table's newest commit to that commit.

    Of the TIMELY tables that were written within `lately_ms` before the newest of these commits, without a delay that
    is beyond SKEW_MS.
    """
    written: dict[str, tuple[int, int]] = {}
    for table in TIMELY:
        if table.name in history.versions:
            at_ms, newest_ms = _read_written(history.warehouse, table, history.versions[table.name])
            if newest_ms is not None and newest_ms <= at_ms + SKEW_MS and at_ms <= now_ms + SKEW_MS:
                written[table.name] = min(at_ms, now_ms), max(0, at_ms - newest_ms)
    last_ms = max((at_ms for at_ms, _ in written.values()), default=0)
    return {name: lag_ms for name, (at_ms, lag_ms) in written.items() if at_ms >= last_ms - lately_ms}


def _read_written(warehouse: Location, table: Table, version: int) -> tuple[int, int | None]:
    """Return the times of the newest commit that appended rows and of its newest event.

    None for the event if the log lacks the commit, or its files' statistics of the time.
    """
    folder = table_path(warehouse, table.name)
    for number in range(version, max(version - MOST_COMMITS, -1), -1):
        commit = read_commit(folder, number)
        if commit is None:
            break
        if commit.appended:
            newest = [json.loads(stats).get("maxValues", {}).get(table.time) for stats in commit.appended.values()]
            return commit.at_ms, max((to_ms(datetime.fromisoformat(time)) for time in newest if time), default=None)
    return 0, None


def read(view: View) -> dict[str, Any]:
    """Return the values of the page.

    groups, troubled   the worst groups, as on their page, and the number of all groups with a problem
    newest_ms          time of the newest row of the live tables, at most now; None while they are empty
    lags               see read_lags
    """
    until_ms = -(-view.now_ms // MINUTE) * MINUTE  # a full minute, as on the alerts page, so that its counts agree
    groups = [group for group in read_groups(view.history) if group["wrong"] or group["unknown"]]
    ages = read_ages(view.history)
    live = {table.name for table in LIVE_TABLES}
    newest_ms = max((age["newest_ms"] for age in ages if age["name"] in live and age["newest_ms"]), default=None)
    trouble = read_trouble(view.history, until_ms - DAY)
    firing = view.with_silences(trouble["firing"])
    for incident in firing:
        incident["runbook_url"] = runbook_url(view.runbooks_url, incident["kind"], incident["cause"])
    return {
        "trouble": {**trouble, "firing": firing},
        "groups": groups[:MOST_GROUPS],
        "troubled": len(groups),
        "clusters": read_clusters(view.history),
        "ages": ages,
        "newest_ms": None if newest_ms is None else min(newest_ms, view.now_ms),
        "lags": read_lags(view.history, view.now_ms, view.stale_ms),
        "is_stale": view.is_stale,
    }


PAGE = Page("overview", "/", phrase("Overview"), read, nav=phrase("Overview"))
