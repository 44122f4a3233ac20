"""The table of changes of the history page: verdicts, owners and members.

It covers all queues of the filter, including those that the bands do not show.
"""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.counts import counted
from streaming.board.drawing.verdicts import verdict_mark
from streaming.board.queries.changes import MOST_CHANGES, Change
from streaming.board.queries.queue_times import MOST_COMINGS, Coming, Times
from streaming.board.url.parameters import href
from udfs.alerts.prose import join_words, name_queues, some

COMING_WORDS = {"JOINED": "joined", "CHANGED": "changed its topics or strategy", "LEFT": "left", "EXPIRED": "expired"}


def change_table(times: Times, path: str, asked: dict[str, str], now_ms: int) -> Component:
    """Return the newest changes, one row per time and kind; the time links to the page at that time."""
    changes, comings = times.changes, _joined(times.comings)
    entries = [(one.time_ms, 1, _change_row(one, path, asked, now_ms)) for one in changes.newest]
    entries += [(one.time_ms, 0, _coming_row(one, path, asked, now_ms)) for one in comings]
    entries.sort(key=lambda entry: entry[:2], reverse=True)
    rows = [row for _, _, row in entries[:MOST_CHANGES]]
    if not rows:
        return el.empty("No changes in this period.")
    columns = [el.Column("Time", "narrow"), el.Column("Change", "narrow"), el.Column("Queues or clients", "wide")]
    return el.table("changes", "Changes", columns, rows)


def describe_number(times: Times) -> str:
    """Return `12 changes, newest first`, or `newest 60 of 70 changes` if the table shows only a part."""
    number = times.changes.number + len(_joined(times.comings))
    if not number:
        return ""
    if number <= MOST_CHANGES:
        return f"{counted(number, 'change')}, newest first"
    over = "over " if len(times.comings) == MOST_COMINGS else ""
    return f"newest {MOST_CHANGES} of {over}{counted(number, 'change')}"


def _change_row(one: Change, path: str, asked: dict[str, str], now_ms: int) -> el.Row:
    queues = f"{name_queues(one.queues)} of {one.topic}"
    if one.way == "became":
        what: list[el.Child] = [verdict_mark(one.after or "")]
        if one.before:
            what.append(f" (was {one.before})")
        if one.owners:
            left = one.owners_number - len(one.owners)
            owners = join_words([*one.owners, *([f"{left} more"] if left else [])])
            queues += f"; {'planned owner' if one.owners_number == 1 else 'planned owners'}: {owners}"
    else:
        words, none = ("planned owner", "none") if one.way == "moved" else ("pulled by", "no client")
        what = [el.mark("→", f"{words}: {one.before or none} → {one.after or none}", "moved")]
    key = f"{one.time_ms}/{one.topic}/{one.way}/{one.before}/{one.after}"
    return el.Row(key, [_moment(one.time_ms, path, asked, now_ms), what, queues])


def _coming_row(one: Coming, path: str, asked: dict[str, str], now_ms: int) -> el.Row:
    words = COMING_WORDS.get(one.change, one.change)
    shape = "▲" if one.change == "JOINED" else "◆" if one.change == "CHANGED" else "▼"
    key = f"{one.time_ms}-{one.change}"
    what = el.mark(shape, words, "coming")
    return el.Row(key, [_moment(one.time_ms, path, asked, now_ms), what, some(one.client_ids, 6)])


def _moment(time_ms: int, path: str, asked: dict[str, str], now_ms: int) -> Component:
    return html.A(el.moment(time_ms, now_ms), href=href(path, asked, at=time_ms))


def _joined(comings: Sequence[Coming], within_ms: int = 1_000) -> list[Coming]:
    """Join equal membership changes within a second: each broker reports its own channel."""
    joined: list[Coming] = []
    for one in comings:
        last = joined[-1] if joined else None
        if last and last.change == one.change and last.time_ms - one.time_ms < within_ms:
            joined[-1] = Coming(last.time_ms, last.change, tuple(sorted({*last.client_ids, *one.client_ids})))
        else:
            joined.append(one)
    return joined


def describe_changes(times: Times) -> str:
    """Return the changes in a few words for the figure's label."""
    changes = times.changes
    words = [f"{number:,} became {verdict}" for verdict, number in sorted(changes.became.items())]
    if changes.moved:
        words.append(f"{changes.moved:,} moved to another client")
    return join_words(words) if words else "nothing changed"
