"""The silences page: silences with their authors and ends, recurring mutes, and the open incidents that they cover."""

from collections.abc import Mapping, Sequence
from typing import Any

from streaming.board.page import Page, View
from streaming.board.url import SortKeys, read_choice, slice_of, sort_rows
from streaming.store.current import read_silences
from udfs.alerts.pattern import Matchers, describe_matchers, is_match
from udfs.alerts.phrase import phrase
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.silence import Silence

SILENCES_A_PAGE = 50
MOST_OPEN = 5_000
MOST_COVERED = 5
"""Incidents that a row names."""

SORT: SortKeys = {
    "match": lambda silence: silence["match"],
    "by": lambda silence: silence["created_by"],
    "starts": lambda silence: silence["starts_ms"],
    "ends": lambda silence: silence["ends_ms"],
    "covers": lambda silence: silence["covers"],
}

_OPEN = f"""
SELECT incident_id, kind, severity, cluster, consumer_group, topic, broker_name, client_id, cause,
    coalesce(consumer_group, broker_name, cluster) AS subject
FROM alerts_now WHERE state <> 'RESOLVED' AND cluster <> $canary
ORDER BY state <> 'FIRING', inhibited_by IS NOT NULL, started_at DESC, incident_id LIMIT {MOST_OPEN}
"""

Incidents = Sequence[Mapping[str, Any]]


def read(view: View) -> dict[str, Any]:
    """Return the values of the page.

    silences     current ones, which are active or scheduled; with `show` = all the ended ones too
    mutes        those of the settings, with the window that is open or comes next
    unreadable   number of silences that cannot be read; they silence nothing
    """
    show = read_choice(view.asked, "show", ("all",))
    (number,) = view.history.rows("SELECT count(*) AS n FROM silences_now")
    silences = read_silences(view.history)
    incidents = [view.labelled(row) for row in view.history.rows(_OPEN, {"canary": CANARY_CLUSTER})]
    shown = [silence for silence in silences if show or silence.ends_at_ms > view.now_ms]
    rows = [_row(silence, incidents, view.now_ms) for silence in shown]
    rows.sort(key=lambda row: (row["state"] == "ended", -row["ends_ms"] if row["state"] == "ended" else row["ends_ms"]))
    windows = ((mute.name, mute.next_window(view.now_ms)) for mute in view.mutes)
    return {
        "asked": view.asked,
        "silences": slice_of(sort_rows(rows, view.asked, SORT), view.asked, SILENCES_A_PAGE),
        "mutes": [{"name": name, **_row(window, incidents, view.now_ms)} for name, window in windows],
        "unreadable": number["n"] - len(silences),
        "now_ms": view.now_ms,
    }


def _row(silence: Silence, incidents: Incidents, now_ms: int) -> dict[str, Any]:
    """Return the columns of a silence. It covers no incident unless it is active."""
    state = "active" if silence.is_active(now_ms) else "ended" if silence.ends_at_ms <= now_ms else "scheduled"
    covered = _covered(silence.matchers, incidents) if state == "active" else []
    return {
        "silence_id": silence.silence_id,
        "state": state,
        "match": describe_matchers(silence.matchers),
        "created_by": silence.created_by,
        "comment": silence.comment,
        "starts_ms": silence.starts_at_ms,
        "ends_ms": silence.ends_at_ms,
        "covers": len(covered),
        "incidents": covered[:MOST_COVERED],
    }


def _covered(matchers: Matchers, incidents: Incidents) -> list[dict[str, Any]]:
    return [
        {name: incident[name] for name in ("incident_id", "kind", "subject")}
        for incident in incidents
        if is_match(matchers, incident)
    ]


PAGE = Page(
    "silences",
    "/silences",
    phrase("Silences"),
    read,
    nav=phrase("Silences"),
    parameters=frozenset({"show", "sort", "page"}),
    tables=frozenset({"alerts", "silences"}),
)
