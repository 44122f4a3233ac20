"""`balancewatch alerts`: open incidents, one line each; transitions of the past; with --follow, new transitions."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from schemas.tables import ACKNOWLEDGEMENTS, ALERTS, SILENCES
from streaming.history.query_options import QueryOptions
from streaming.history.questions import BROKER_OF_ALERT, PLACE, closed_name
from streaming.history.table_question import Question, command_of, open_history, read_notes, run_query, where_named
from streaming.store.alerts import present_alert
from streaming.store.current import read_incidents, read_silences
from streaming.store.freshness import LIVE_TABLES
from streaming.store.store import History
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail
from streaming.terminal.printing import (
    Layout,
    Records,
    Row,
    age,
    print_json_line,
    print_lines,
    print_rows,
    show_alerts,
    styled_state,
)
from streaming.text.output import note, say
from streaming.text.times import time_text, to_ms, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.firing_limit import SEVERITIES
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.self_kinds import SELF_FACTS
from udfs.alerts.silence import Quiet
from udfs.alerts.static_labels import describe_labels, pick_static_labels

KINDS = (*KIND_FACTS, *SELF_FACTS)
OPEN_STATES = ("PENDING", "FIRING", "RECOVERING", "UNKNOWN")
ALERT_STATES = (*OPEN_STATES[:3], "RESOLVED", "UNKNOWN")

TRANSITIONS = Question(
    table=ALERTS,
    help="""List open incidents, the worst first; their transitions with --history, --since or --until.

    `handled` is who acknowledged or silenced an incident, or the incident that inhibits it. An id can be shortened, as
    the list does. --limit keeps the worst. --state RESOLVED lists resolved incidents. --current and --at show the
    newest row of each incident with its summary and fix. --broker also matches the brokers of an alert's queues.

    Example: balancewatch alerts

    Example: balancewatch alerts --severity critical,error --cluster 'prod-*'

    Example: balancewatch alerts --since 2h --group 'billing*' -o json

    Example: balancewatch alerts --follow --kind starved_queue,broker_isolated

    Example: balancewatch alerts --at 03:12 --broker broker-a

    Example: balancewatch alerts rules starved_queue --cluster prod --group billing
    """,
    names={
        "state": closed_name("state", f"Only these states, with commas: {', '.join(ALERT_STATES)}.", ALERT_STATES),
        "severity": closed_name("severity", f"Only these severities: {', '.join(SEVERITIES)}.", SEVERITIES),
        "kind": closed_name("kind", "Only these kinds: starved_queue,duplicate_client_id or 'broker_*'.", KINDS),
        **PLACE,
        "broker": BROKER_OF_ALERT,
    },
    show=lambda rows: show_alerts([present_alert(row) for row in rows]),
    present=present_alert,
    nothing="No alert matches.",
    has_commands=True,
)
CONDITIONS = {name: named.condition for name, named in TRANSITIONS.names.items()}

POLL_SECONDS = 2.0

SHORT_ID = 8
"""Least characters of an incident id in a list."""


def answer(question: Question, options: QueryOptions, *, history: bool, follow: bool) -> None:
    """Print open incidents, transitions, or new transitions."""
    is_of_now = options.since_ms is None and options.until_ms is None and options.at_ms is None
    if history and (options.is_current or options.at_ms is not None):
        fail("--history excludes --current and --at", code=2)
    if follow:
        is_other = history or options.is_current or options.until_ms is not None or options.at_ms is not None
        if is_other or options.format in ("csv", "parquet"):
            fail("--follow excludes --history, --current, --until, --at and -o csv and parquet", code=2)
        _follow(options)
    elif history or options.is_current or not is_of_now:
        if options.format == "json":
            question = replace(question, present=lambda row: _labelled(row, options))
        run_query(question, options)
    else:
        _list_open(replace(options, names={"state": OPEN_STATES, **options.names}))


def _list_open(options: QueryOptions) -> None:
    """Print the incidents that match, the worst first, and notes. Leaves with 1 where the tables cannot be read."""
    now_ms = wall_ms()
    where, params = where_named(options, CONDITIONS)
    try:
        history = open_history(options, ALERTS, ACKNOWLEDGEMENTS, SILENCES, *LIVE_TABLES)
        quiets: list[Quiet] = [*read_silences(history), *options.mutes]
        found = read_incidents(history, quiets, now_ms, where, params, options.labels)
        shown = found[: options.limit]
        rows: Records = shown if options.format == "parquet" else [present_alert(row) for row in shown]
        layout = incident_layout(shown, now_ms)
        if options.format == "wide":
            layout = {**layout, **WIDE_LAYOUT}
            print_lines(rows, layout, is_wide=True)
        else:
            names = [*ALERTS.names, "acknowledged_by", "static_labels", "silence_id", "silenced_by"]
            nothing = "No open incident matches."
            print_rows(rows, options.format, nothing, lambda rows: print_lines(rows, layout), names)
        notes = read_notes(history, options, is_empty=not found)
    except WarehouseError as error:
        fail(str(error))
    for line in notes:
        note(line)
    if len(found) > len(shown):
        note(f"only the first {len(shown)} of {len(found)}; --limit 0 prints all")
    if rows and options.format in ("table", "wide"):
        note("`balancewatch explain ID` has the details of an incident, --history all transitions")


def incident_layout(rows: Records, now_ms: int) -> Layout:
    """Return the columns of a list of incidents, with ids as short as they are unique."""
    ids = [row["incident_id"] for row in rows]
    length = next((n for n in range(SHORT_ID, 30) if len({name[:n] for name in ids}) == len(ids)), None)
    return {
        "severity": lambda row: styled_state(row["severity"]),
        "state": lambda row: styled_state(row["state"]),
        "kind": lambda row: row["kind"],
        "cluster": lambda row: row["cluster"],
        "group": lambda row: row["consumer_group"] or row["broker_name"] or "",
        "since": lambda row: age(row["started_at"], now_ms),
        "id": lambda row: row["incident_id"][:length],
        "handled": _handled,
    }


WIDE_LAYOUT: Layout = {
    "incident": lambda row: row["incident_id"],
    "started": lambda row: row["started_at"],
    "cause": lambda row: row["cause"] or "",
    "topic": lambda row: row["topic"] or "",
    "queues": lambda row: " ".join(row["queues"] or ()),
    "labels": lambda row: describe_labels(row["static_labels"]),
    "summary": lambda row: row["summary"],
}


def _handled(row: Row) -> str:
    """Return who acknowledged or silenced the incident, or what inhibits it."""
    cause = (row["inhibited_by"] or "")[:SHORT_ID]
    words = {"acknowledged": row["acknowledged_by"], "silenced": row["silenced_by"], "inhibits": cause}
    return ", ".join(f"{value} {word}" for word, value in words.items() if value)


def _follow(options: QueryOptions) -> None:
    """Print transitions as they arrive, those since --since first, until SIGINT or SIGTERM."""
    stop = stop_on_signals()
    where, params = where_named(options, CONDITIONS)
    try:
        history = open_history(options, ALERTS)
        if options.since_ms is not None:
            rows = history.between(ALERTS, options.since_ms)
            _print_transitions(history, f"FROM {rows} WHERE {where}", params, options)
        version = history.versions[ALERTS.name]
        while not stop.wait(POLL_SECONDS):
            if history.refresh():
                appended = history.appended(ALERTS, version)
                version = history.versions.get(ALERTS.name, 0)
                _print_transitions(history, f"FROM ({appended}) WHERE {where}", params, options)
    except WarehouseError as error:
        fail(str(error))


def _labelled(row: Row, options: QueryOptions) -> dict[str, Any]:
    """Return the transition as JSON shows it."""
    return present_alert(row) | {"static_labels": pick_static_labels(options.labels, row)}


def _print_transitions(history: History, sql: str, params: dict[str, Any], options: QueryOptions) -> None:
    for row in history.rows(f"{sql} ORDER BY changed_at, batch_id, incident_id", params):
        if options.format == "json":
            print_json_line(_labelled(row, options))
            continue
        place = " ".join(filter(None, (row["cluster"], row["consumer_group"] or row["broker_name"])))
        head = f"{time_text(to_ms(row['changed_at']))}  {row['state']:10}  {row['severity']:8}  {row['kind']}"
        say(f"{head}  {place}  {row['incident_id'][:SHORT_ID]}  {row['summary']}", flush=True)


alerts = command_of(
    TRANSITIONS,
    answer,
    history=Annotated[bool, typer.Option("--history", help="All transitions, oldest first.")],
    follow=Annotated[bool, typer.Option("--follow", help="Print new transitions as they arrive, until Ctrl-C.")],
)
