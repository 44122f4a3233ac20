"""Pages of a replay beside those that were sent, as a table, JSON or CSV."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from streaming.replay.pages import Outcome, Page, count
from streaming.replay.replay import Asked, Replayed
from streaming.store.alerts import iso
from streaming.text.console import VisibleConsole
from streaming.text.output import say, write_csv, write_json
from streaming.text.times import to_time

STYLES = {"new": "bold red", "gone": "yellow", "same": "green"}
MEANINGS = {"same": "sent, unchanged", "new": "was not sent", "gone": "was sent, would not be"}


def report(outcomes: Sequence[Outcome], replayed: Replayed, asked: Asked) -> dict[str, Any]:
    """Return the result of a replay as JSON; times are ISO 8601."""
    return {
        "since": iso(to_time(asked.from_ms)),
        "until": iso(to_time(asked.to_ms)),
        "events": replayed.messages,
        "counts": count(outcomes),
        "pages": [_row(one) for one in outcomes],
    }


def _row(one: Outcome) -> dict[str, Any]:
    page = one.page
    return {
        "outcome": one.outcome,
        "kind": page.kind,
        "severity": page.severity,
        "cluster": page.cluster,
        "consumer_group": page.consumer_group,
        "topic": page.topic,
        "alert_id": page.alert_id,
        "replayed_at": _paged_at(one.replayed),
        "sent_at": _paged_at(one.notified),
        "started_at": iso(to_time(page.started_ms)),
        "summary": page.summary,
    }


def _paged_at(page: Page | None) -> str | None:
    return None if page is None or page.paged_ms is None else iso(to_time(page.paged_ms))


def print_outcomes(report: dict[str, Any], format_: str) -> None:
    """Print the result as table, json or csv; csv has only the pages."""
    if format_ == "json":
        write_json(report)
    elif format_ == "csv":
        pages = report["pages"]
        write_csv(list(pages[0]) if pages else ["outcome"], pages)
    else:
        _print_table(report)


def _print_table(report: dict[str, Any]) -> None:
    counts = ", ".join(f"{number} {outcome}" for outcome, number in report["counts"].items())
    say(f"{report['since']} to {report['until']}, {report['events']} events including warm-up: {counts}.")
    if not report["pages"]:
        return
    table = Table(show_lines=True)
    table.add_column("page", no_wrap=True)
    table.add_column("time and summary", overflow="fold")
    for row in report["pages"]:
        outcome = Text(row["outcome"], style=STYLES[row["outcome"]])
        head = Text("\n").join([outcome, Text(row["kind"]), Text(row["severity"])])
        table.add_row(head, Text(f"{_when(row)}\n{row['summary']}"))
    VisibleConsole().print(table)


def _when(row: dict[str, Any]) -> str:
    """Return when the page was sent, in the replay, at the time, or both."""
    parts = [("replayed", row["replayed_at"]), ("sent", row["sent_at"])]
    notified = ", ".join(f"{name} {at[:19].replace('T', ' ')} UTC" for name, at in parts if at)
    return f"{notified} ({MEANINGS[row['outcome']]})"
