"""`balancewatch replay`: its options, what it reads, and how the pages are printed."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from streaming.kafka_io.topics import KafkaUnreachableError
from streaming.queries.rulebook import rulebook
from streaming.replay.outcomes import print_outcomes, report
from streaming.replay.pages import Outcome, compare, read_pages
from streaming.replay.recorded import RecordedError, read_events, read_kafka
from streaming.replay.replay import MOST_TRANSITIONS, Asked, Replayed
from streaming.replay.replay import replay as work_through
from streaming.terminal.command import fail, load, needs_kafka
from streaming.terminal.printing import print_alerts
from streaming.terminal.setting_options import BootstrapServers, Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import note
from streaming.text.time_text import parse_moment
from streaming.text.times import iso, time_text, to_time, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError

SHOW_AFTER_SECONDS = 2.0


def replay(
    since: Annotated[
        str,
        typer.Option(help="From when on pages are listed: 2h ago, 03:12, or ISO 8601; local without a zone."),
    ] = "1h",
    until: Annotated[str | None, typer.Option(help="Until when, likewise; until now without it.")] = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", help="A rules file to try; without it the rules in force [rules.file]")
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option("--events", help='JSON lines {"topic": ..., "event": {...}}, read whole, instead of Kafka.'),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only this cluster's pages.")] = None,
    group: Annotated[str | None, typer.Option(help="Only this consumer group's pages.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Print every transition, inhibited and info ones too.")] = False,
    format_: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
) -> None:
    """Work through recorded events again, under changed rules: which pages would have been sent, and which were.

    Nothing is sent, and nothing written. Events of the quarter of an hour before --since are read as a warm-up. A page
    is the same when both runs have it at overlapping times; --until counts by the time of the event.

    Example: balancewatch replay --since 2h --rules stricter.toml

    Example: balancewatch replay --since 2026-11-21T03:00 --until 2026-11-21T04:00 --group billing --all

    Example: balancewatch replay --events night.jsonl --since 2026-11-21T00:00 --format json
    """

    if format_ not in ("table", "json", "csv"):
        fail(f"--format {format_!r}: choose table, json or csv", code=2)
    settings = load(
        kafka={"bootstrap_servers": bootstrap_servers},
        paths={"warehouse": warehouse},
        rules={"file": None if rules is None else str(rules)},
    )
    now_ms = wall_ms()
    try:
        asked = Asked(
            parse_moment(since, now_ms), now_ms if until is None else parse_moment(until, now_ms), cluster, group
        )
    except ValueError as error:
        fail(f"--since or --until {error}", code=2)
    if asked.from_ms >= asked.to_ms:
        fail(f"--since {since} is not before --until {until or 'now'}", code=2)
    if events is None:
        needs_kafka(settings)
    try:
        notified = read_pages(settings.paths.warehouse, asked.to_ms, cluster, group)
        incomparable = None
    except WarehouseError as error:
        notified, incomparable = [], f"nothing to compare with: {error}"
    try:
        slices = read_kafka(settings.kafka, asked.warm_up_ms, asked.to_ms) if events is None else read_events(events)
        with _progress() as on_progress:
            replayed = work_through(slices, rulebook(settings), asked, on_progress)
    except (RecordedError, KafkaUnreachableError) as error:
        fail(str(error))
    if all_:
        _print_transitions(replayed, format_)
    else:
        _print_outcomes(compare(replayed.pages, notified, asked.from_ms, asked.to_ms), replayed, asked, format_)
    for line in _notes(replayed, asked, incomparable):
        note(line)


@contextmanager
def _progress() -> Iterator[Any]:
    """A bar on a terminal's stderr once it takes longer than SHOW_AFTER_SECONDS."""

    began = time.monotonic()
    with Progress(console=VisibleConsole(stderr=True), transient=True, auto_refresh=False) as progress:
        task = progress.add_task("working through the events", total=1.0, visible=False)

        def show(share: float) -> None:
            is_long = sys.stderr.isatty() and time.monotonic() - began > SHOW_AFTER_SECONDS
            progress.update(task, completed=share, visible=is_long, refresh=is_long)

        yield show


def _notes(replayed: Replayed, asked: Asked, incomparable: str | None) -> Iterator[str]:

    if not replayed.messages:
        yield "there are no events in that span"
    if replayed.is_cut_short(asked):
        yield f"the record begins at {time_text(replayed.first_ms or 0)}, after --since"
    if len(replayed.transitions) >= MOST_TRANSITIONS:
        yield f"only the first {MOST_TRANSITIONS} transitions are kept; give a shorter span"
    if incomparable:
        yield incomparable


def _print_transitions(replayed: Replayed, format_: str) -> None:

    rows = []
    for row in replayed.transitions:
        times = {name: iso(to_time(row[name])) for name in ("started_at", "fired_at", "changed_at") if row.get(name)}
        rows.append({**row, **times, "evidence": json.loads(row["evidence"])})
    print_alerts(rows, format_)  # type: ignore[arg-type]  # checked by the command


def _print_outcomes(outcomes: list[Outcome], replayed: Replayed, asked: Asked, format_: str) -> None:

    print_outcomes(report(outcomes, replayed, asked), format_)
