"""`balancewatch quality`: data expectations in the newest samples, in Kafka now, and as static pages."""

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from kafka.errors import KafkaError

from conf.settings import Settings
from schemas.events import EVENTS
from schemas.suites import CONTRACT
from schemas.tables import QUALITY
from streaming.history.query_options import FormatName, parse_options
from streaming.history.questions import name_option
from streaming.kafka_io.topics import KafkaUnreachableError
from streaming.quality.inspection import Bounds, Inspection
from streaming.store.store import History
from streaming.terminal.command import fail, load, needs_kafka, run_or_exit
from streaming.terminal.format_option import format_option
from streaming.terminal.printing import Layout, plain, print_answer, print_rows, print_table
from streaming.terminal.setting_options import BootstrapServers, Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import say
from streaming.text.times import ago, time_text, to_ms, to_time, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError

quality = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)

_NEWEST = """
SELECT * FROM (
    FROM quality_now QUALIFY validated_at = max(validated_at) OVER (PARTITION BY topic)
) WHERE (NOT $failed OR NOT coalesce(success, false)) AND ($topic IS NULL OR topic GLOB $topic)
ORDER BY success, suite, expectation
"""
"""Each validation writes all expectations of a topic; a missing one no longer exists."""

Topic = Annotated[str | None, name_option("Only this Kafka topic, or a glob.", values=tuple(EVENTS))]
Failed = Annotated[bool, typer.Option("--failed", help="Only expectations that fail.")]


@quality.callback()
def newest(
    context: typer.Context,
    failed: Failed = False,
    topic: Topic = None,
    format_: FormatName = "table",
    warehouse: Warehouse = None,
) -> None:
    """Print which data expectations fail in the newest samples.

    `run` validates samples of events regularly. A table lists failing expectations and counts the others; JSON, CSV and
    Parquet have all.

    Example: balancewatch quality

    Example: balancewatch quality --failed --format json | jq '.[] | .suite + ": " + .description'
    """
    if context.invoked_subcommand is not None:
        return
    asked = parse_options(topic=topic, format_=format_, warehouse=warehouse)
    try:
        history = History(asked.warehouse, [QUALITY])
        found = history.stream(_NEWEST, {"failed": failed and asked.format != "table", "topic": topic})
        of_topic = f" of {topic}" if topic else ""
        nothing = f"No sample{of_topic} has been validated yet; `balancewatch quality check` validates one now."
        print_answer(found, asked.format, _print_newest, nothing)
    except WarehouseError as error:
        fail(str(error))


@quality.command()
def check(
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Kafka topic; repeat for more. Default: all five.", metavar="NAME"),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            help="Newest events to validate per topic, at most [quality.sample_messages]",
            min=1,
            max=100_000,
            metavar="N",
        ),
    ] = None,
    format_: Annotated[str, format_option("table", "json", "csv")] = "table",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Validate the newest events in Kafka now, without writing. Exit code 1: a critical expectation fails.

    Example: balancewatch quality check

    Example: balancewatch quality check --topic rocketmq.pulls --sample 10000 --format json
    """
    settings = load(kafka={"bootstrap_servers": bootstrap_servers})
    needs_kafka(settings)
    for one in topic or ():
        if one not in EVENTS:
            fail(f"--topic {one[:100]!r} is unknown; choose one of {', '.join(EVENTS)}", code=2)
    if find_spec("great_expectations") is None:  # only the process that validates imports it
        raise ModuleNotFoundError(name="great_expectations")
    bounds = Bounds(sample or settings.quality.sample_messages, settings.quality.sample_bytes)
    found: list[dict[str, Any]] = []
    run_or_exit(lambda: found.extend(_inspect(settings, topic or list(EVENTS), bounds)))
    now = to_time(wall_ms())
    rows = [plain({**row, "query": None, "validated_at": now}) for row in found]
    if format_ == "table":
        for row in rows:
            if row["expectation"] == CONTRACT.name:  # which has a value for each message
                spans = [f"{part}: {first} to {last}" for part, (first, last) in json.loads(row["offsets"]).items()]
                extent = f"{row['evaluated']:,} events (partition {', '.join(spans)})" if spans else "no events"
                say(f"{row['topic']}: {extent}")
        _print(rows)
    else:
        print_rows(rows, format_)
    if any(row["severity"] == "critical" and not row["success"] for row in rows):
        raise typer.Exit(1)


@quality.command()
def docs(
    out: Annotated[Path, typer.Option(help="Folder of the pages; older pages are replaced.", metavar="FOLDER")] = Path(
        "quality-docs"
    ),
    warehouse: Warehouse = None,
) -> None:
    """Write static pages of every suite and its newest results, and print the path of the first.

    Example: balancewatch quality docs --out /var/www/quality
    """
    if out.exists() and not out.is_dir():
        fail(f"--out {out} is a file; name a folder", code=2)
    settings = load(paths={"warehouse": warehouse})
    try:
        rows = History(settings.paths.warehouse, [QUALITY]).rows("SELECT * FROM quality_now")
    except WarehouseError as error:
        fail(str(error))
    try:
        with VisibleConsole(stderr=True).status("writing pages"):
            from streaming.quality.docs import write_docs  # noqa: PLC0415  # Great Expectations: 1.2 s, 230 MB

            index = write_docs(out, rows)
    except OSError as error:
        fail(f"--out {out}: {error.strerror or error}")
    if not rows:
        say("No sample has been validated yet; the pages list the expectations only.")
    say(str(index.resolve()))


def _inspect(settings: Settings, topics: Sequence[str], bounds: Bounds) -> list[dict[str, Any]]:
    """Validate the topics' newest events. Raises KafkaUnreachableError."""
    inspection = Inspection(settings, bounds)
    try:
        with VisibleConsole(stderr=True).status("validating"):
            return [row for topic in topics for row in inspection.look(topic)]
    except KafkaError as error:
        raise KafkaUnreachableError(
            f"kafka.bootstrap_servers = {settings.kafka.bootstrap_servers!r}: no broker answers "
            f"({type(error).__name__})"
        ) from None
    finally:
        inspection.close()


def _print_newest(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows and their age: a stopped `run` validates nothing."""
    _print(rows)
    newest = {row["topic"]: row["validated_at"] for row in rows}
    ages = {topic: f"{time_text(to_ms(at))} ({ago(wall_ms() - to_ms(at))})" for topic, at in newest.items()}
    first, last = min(newest, key=newest.__getitem__), max(newest, key=newest.__getitem__)
    older = "" if newest[first] == newest[last] else f"; {first} {ages[first]}"
    say(f"Validated {ages[last]}{older}.")


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    failed = [row for row in rows if not row["success"]]
    layout: Layout = {
        "expectation": lambda row: f"{row['suite']}\n{row['description'] or row['expectation']}",
        "failed": lambda row: f"{row['unexpected'] or 0:,} of {row['evaluated'] or 0:,}\n{row['severity'] or ''}",
        "found": lambda row: ", ".join(filter(None, row["observed"] or ())),
        "partition@offset": lambda row: "\n".join(
            place.rpartition("-")[2] for place in filter(None, row["sample_offsets"] or ())
        ),
    }
    if failed:
        print_table(failed, layout)
    suites = len({row["suite"] for row in rows})
    say(f"{len(rows) - len(failed)} of {len(rows)} expectations of {suites} suites pass.")
