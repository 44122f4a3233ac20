"""`balancewatch replay`: backtest rules on recorded events."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from streaming.history.query_options import TIME, check_format, moment
from streaming.kafka_io.topics import KafkaUnreachableError
from streaming.queries.rulebook import rulebook
from streaming.replay.recorded import RecordedError, last_event_ms, read_events, read_kafka
from streaming.replay.replay import (
    MOST_TRANSITIONS,
    WARM_UP_MS,
    Asked,
    Replayed,
    compare,
    print_outcomes,
    read_pages,
)
from streaming.replay.replay import replay as work_through
from streaming.terminal.command import fail, load, needs_kafka
from streaming.terminal.printing import print_rows, show_alerts
from streaming.terminal.setting_options import BootstrapServers, Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import note
from streaming.text.times import iso, time_text, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError

FILE = "FILE"


def replay(
    since: Annotated[
        str,
        typer.Option(
            help="List pages from this time: 2h (ago), 03:12 or ISO 8601; local time by default.", metavar=TIME
        ),
    ] = "1h",
    until: Annotated[
        str | None,
        typer.Option(help="List pages until this time. Default: now, or the file's last event.", metavar=TIME),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option("--rules", help="Rules file to try. Default: the rules in force [rules.file]", metavar=FILE),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option("--events", help='Read JSON lines {"topic": ..., "event": {...}} instead of Kafka.', metavar=FILE),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only pages of this cluster.", metavar="NAME")] = None,
    group: Annotated[str | None, typer.Option(help="Only pages of this consumer group.", metavar="NAME")] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Print all transitions, including inhibited and info ones.")
    ] = False,
    format_: Annotated[str, typer.Option("--format", help="table, json or csv.", metavar="FORMAT")] = "table",
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
) -> None:
    """Backtest changed rules on recorded events: which pages would be new, unchanged or gone.

    The command sends and writes nothing. It reads 15 minutes before --since as a warm-up. Two pages about the same
    subject at overlapping times count as one. With --events, times such as 2h count back from the file's last event.

    Example: balancewatch replay --since 2h --rules stricter.toml

    Example: balancewatch replay --since 2026-11-21T03:00 --until 2026-11-21T04:00 --group billing --all

    Example: balancewatch replay --events night.jsonl --since 2026-11-21T00:00 --format json
    """
    form = check_format(format_, ("table", "json", "csv"))
    settings = load(
        kafka={"bootstrap_servers": bootstrap_servers},
        paths={"warehouse": warehouse},
        rules={"file": None if rules is None else str(rules)},
    )
    try:
        now_ms = wall_ms() if events is None else last_event_ms(events) + 1
    except RecordedError as error:
        fail(str(error))
    until_ms = moment("--until", until, now_ms)
    asked = Asked(moment("--since", since, now_ms) or 0, now_ms if until_ms is None else until_ms, cluster, group)
    if asked.from_ms >= asked.to_ms:
        end = until or ("now" if events is None else f"the last event, {time_text(now_ms)}")
        fail(f"--since {since} is not before --until {end}", code=2)
    if events is None:
        needs_kafka(settings)
    try:
        notified, incomparable = read_pages(settings.paths.warehouse, asked), None
    except WarehouseError as error:
        notified, incomparable = [], f"no pages to compare with: {error}"
    try:
        slices = (
            read_kafka(settings.kafka, asked.from_ms - WARM_UP_MS, asked.to_ms)
            if events is None
            else read_events(events)
        )
        with VisibleConsole(stderr=True).status("replaying events"):
            replayed = work_through(slices, rulebook(settings), asked)
    except (RecordedError, KafkaUnreachableError) as error:
        fail(str(error))
    if all_:
        print_rows([_transition(row) for row in replayed.transitions], form, "No alert matches.", show_alerts)
    else:
        outcomes = compare(replayed.pages, notified, asked.from_ms, asked.to_ms)
        print_outcomes(outcomes, replayed, asked, form)
    for line in _notes(replayed, asked, incomparable):
        note(line)


def _notes(replayed: Replayed, asked: Asked, incomparable: str | None) -> Iterator[str]:
    if not replayed.messages:
        yield "no events between --since and --until"
    if replayed.first_ms is not None and replayed.first_ms > asked.from_ms:
        yield f"the first recorded event is from {time_text(replayed.first_ms)}, after --since"
    if len(replayed.transitions) >= MOST_TRANSITIONS:
        yield f"only the first {MOST_TRANSITIONS} transitions are listed; give a shorter span"
    if incomparable:
        yield incomparable


def _transition(row: dict[str, Any]) -> dict[str, Any]:
    times = {name: iso(row[name]) for name in ("started_at", "fired_at", "changed_at") if row.get(name)}
    return {**row, **times, "evidence": json.loads(row["evidence"])}
