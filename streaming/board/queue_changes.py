"""What changed, in words: queues that went from one verdict to another at a moment, members that came or went.

The text beside the bands of the history: everything that the picture shows, without the picture.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.asked import href
from streaming.board.queue_times import Coming, Span, Times
from streaming.board.verdicts import verdict_mark
from udfs.prose import join_words, name_queues, some

MOST_CHANGES = 60

COMING_WORDS = {"JOINED": "joined", "CHANGED": "changed its topics or strategy", "LEFT": "left", "EXPIRED": "expired"}


@dataclass(frozen=True, slots=True)
class Change:
    """Queues of a topic that went from a verdict to another; `before` is None where nothing was known before."""

    time_ms: int
    topic: str
    before: str | None
    after: str
    queues: tuple[str, ...]


def changes_of(spans: Iterable[Span], from_ms: int) -> list[Change]:
    """Changes of the verdict, newest first. `spans` stand by queue, each queue's newest first."""
    found: dict[tuple[int, str, str | None, str], list[str]] = {}
    ordered = list(spans)
    for number, span in enumerate(ordered):
        older = ordered[number + 1] if number + 1 < len(ordered) else None
        if older is not None and (older.topic, older.queue) != (span.topic, span.queue):
            older = None
        before = older.verdict if older else None
        if before != span.verdict and span.start_ms > from_ms:
            found.setdefault((span.start_ms, span.topic, before, span.verdict), []).append(span.queue)
    return [
        Change(*key, tuple(queues)) for key, queues in sorted(found.items(), key=lambda item: item[0][0], reverse=True)
    ]


def change_table(times: Times, path: str, asked: dict[str, str], now_ms: int) -> Component:
    """The newest changes of queues and members, one row a moment and kind; each leads to its moment."""
    changes = changes_of(times.spans, times.from_ms)
    entries = [(one.time_ms, 1, _change_row(one, path, asked, now_ms)) for one in changes]
    entries += [(one.time_ms, 0, _coming_row(one, path, asked, now_ms)) for one in _joined(times.comings)]
    entries.sort(key=lambda entry: entry[:2], reverse=True)
    rows = [row for _, _, row in entries[:MOST_CHANGES]]
    if not rows:
        return el.empty("Nothing changed in this time.")
    which = f"The newest {len(rows)} of {len(entries)} changes" if len(rows) < len(entries) else f"{len(rows)} changes"
    return el.table(
        "changes",
        f"{which}, newest first",
        [el.Column("when", "narrow"), el.Column("what", "narrow"), el.Column("of whom", "wide")],
        rows,
    )


def _change_row(one: Change, path: str, asked: dict[str, str], now_ms: int) -> el.Row:
    what: list[el.Child] = [verdict_mark(one.after)]
    if one.before:
        what.append(f" after {one.before}")
    key = f"{one.time_ms}-{one.topic}-{one.before}-{one.after}"
    return el.Row(key, [_moment(one.time_ms, path, asked, now_ms), what, f"{name_queues(one.queues)} of {one.topic}"])


def _coming_row(one: Coming, path: str, asked: dict[str, str], now_ms: int) -> el.Row:
    words = COMING_WORDS.get(one.change, one.change)
    shape = "▲" if one.change == "JOINED" else "◆" if one.change == "CHANGED" else "▼"
    key = f"{one.time_ms}-{one.change}"
    what = el.mark(shape, words, "coming")
    return el.Row(key, [_moment(one.time_ms, path, asked, now_ms), what, some(one.client_ids, 6)])


def _moment(time_ms: int, path: str, asked: dict[str, str], now_ms: int) -> Component:
    return html.A(el.moment(time_ms, now_ms), href=href(path, asked, at=time_ms))


def _joined(comings: Sequence[Coming], within_ms: int = 1_000) -> list[Coming]:
    """One channel a broker comes or goes within milliseconds: one row for what is the same within a second."""
    joined: list[Coming] = []
    for one in comings:
        last = joined[-1] if joined else None
        if last and last.change == one.change and last.time_ms - one.time_ms < within_ms:
            joined[-1] = Coming(last.time_ms, last.change, tuple(sorted({*last.client_ids, *one.client_ids})))
        else:
            joined.append(one)
    return joined


def tell_changes(times: Times) -> str:
    """One sentence for the figure's label."""
    counts: dict[str, int] = {}
    for one in changes_of(times.spans, times.from_ms):
        counts[one.after] = counts.get(one.after, 0) + len(one.queues)
    if not counts:
        return "no verdict changed"
    return join_words([f"{number} became {verdict}" for verdict, number in sorted(counts.items())])
