"""`balancewatch silence`, `ack` and `canary`: silences, acknowledgements, the latency of canaries."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import quantiles
from typing import Annotated, Any

import typer

from streaming.relay.actions import (
    MOST_CHARACTERS,
    ActionError,
    acknowledge,
    add_silence,
    check_text,
    end_silence,
    read_end_ms,
    read_newest_row,
    read_patterns,
)
from streaming.relay.canary import lost_after_ms, read_canaries
from streaming.relay.mutes import make_mutes
from streaming.relay.tables import RelayTables
from streaming.store.alerts import read_current_alerts
from streaming.terminal.command import fail, load
from streaming.terminal.completion import complete_incident
from streaming.terminal.format_option import format_option
from streaming.terminal.printing import print_rows
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say
from streaming.text.times import iso, to_ms, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.pattern import LABELS, describe_matchers, incident_matchers, is_match
from udfs.alerts.silence import Silence
from udfs.alerts.static_labels import pick_static_labels

silence = typer.Typer(
    help="Add, list and end silences. An alert that still fires when its silence ends is notified then.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@contextmanager
def _failing() -> Iterator[None]:
    """End with the sentence and the exit code of an ActionError."""
    try:
        yield
    except ActionError as error:
        fail(str(error), code=error.code)


def _check_text(option: typer.CallbackParam, text: str) -> str:
    with _failing():
        return check_text(option.opts[0], text)


Format = Annotated[str, format_option("table", "json", "csv")]


@silence.command()
def add(
    *,
    incident: Annotated[
        str | None,
        typer.Argument(
            help="An incident_id or its prefix: matches its kind, cluster, group and broker.",
            metavar="INCIDENT",
            autocompletion=complete_incident,
        ),
    ] = None,
    owner: Annotated[str, typer.Option(help="Person responsible.", metavar="NAME", callback=_check_text)],
    reason: Annotated[str, typer.Option(help="Reason.", metavar="TEXT", callback=_check_text)],
    match: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Repeat for more; all must match. Labels: {', '.join(LABELS)}, or one of [[labels]].",
            metavar="LABEL=GLOB[,GLOB]",
        ),
    ] = None,
    for_: Annotated[str | None, typer.Option("--for", help="Duration: 90s, 45m, 2h, 1d.", metavar="SPAN")] = None,
    until: Annotated[
        str | None, typer.Option(help="End: 03:12 or ISO 8601; local time unless it names a zone.", metavar="TIME")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the firing incidents that it would cover; add nothing.")
    ] = False,
    format_: Format = "table",
    warehouse: Warehouse = None,
) -> None:
    """Add a silence; print it and how many firing incidents it covers.

    Example: balancewatch silence add --match consumer_group=billing --for 2h --owner ada --reason "release 4.2"

    Example: balancewatch silence add c87a8d88 --for 2h --owner ada --reason "known, fixed by release 4.2"

    Example: balancewatch silence add --match cluster=staging-* --match severity=warning,info --until 2026-12-01
    --owner ada --reason "load test" --dry-run
    """
    if incident is None and not match:
        fail("give an INCIDENT or at least one --match LABEL=GLOB; --match 'cluster=*' covers everything", code=2)
    now_ms = wall_ms()
    end_ms = _end_ms(for_, until, now_ms)
    settings = load(paths={"warehouse": warehouse})
    matchers = _matchers(match or [], [*LABELS, *{name: 0 for _, names in settings.label_rules for name in names}])
    if incident is not None:
        with _failing():
            matchers = dict(incident_matchers(read_newest_row(settings.paths.warehouse, incident))) | matchers
    try:
        firing = read_current_alerts(settings.paths.warehouse, "FIRING")
    except WarehouseError:
        firing = []
    columns = ("incident_id", "kind", "severity", "cluster", "consumer_group", "topic", "summary")
    labelled = [{**pick_static_labels(settings.label_rules, row), **row} for row in firing]
    covered = [{name: row[name] for name in columns} for row in labelled if is_match(matchers, row)]
    if dry_run:
        print_rows(covered, format_, "The silence would cover no firing incident.")
        return
    made = add_silence(settings.paths.warehouse, matchers, owner, reason, now_ms, end_ms)
    print_rows([{**_row(made, now_ms), "covers_now": len(covered)}], format_, "")
    if format_ == "table":
        say(f"End it with `balancewatch silence end {made.silence_id}`.")


@silence.command("list")
def list_(
    all_: Annotated[bool, typer.Option("--all", help="Include ended silences.")] = False,
    format_: Format = "table",
    warehouse: Warehouse = None,
) -> None:
    """List active silences and mutes, and unreadable rows, which silence nothing.

    Mutes come from the settings: `balancewatch check` prints all of them, and `silence end` cannot end one.

    Example: balancewatch silence list --format json
    """
    settings = load(paths={"warehouse": warehouse})
    now_ms = wall_ms()
    tables = RelayTables(settings.paths.warehouse, may_write=False)
    found = sorted(tables.read_silences() or [], key=lambda silence: silence.ends_at_ms)
    found += [window for mute in make_mutes(settings.mutes) if (window := mute.at(now_ms)) is not None]
    rows = [_row(silence, now_ms) for silence in found if all_ or silence.ends_at_ms > now_ms]
    for row, why in tables.unreadable:
        known = {name: str(row[name]) for name in ("silence_id", "created_by", "comment")}
        match = f"nothing: {why}; matchers: {str(row['matchers'])[:MOST_CHARACTERS]}"
        rows.append({**dict.fromkeys(_COLUMNS), **known, "state": "unreadable", "match": match})
    print_rows(rows, format_, "No silence is active.")


@silence.command()
def end(
    silence_id: Annotated[str, typer.Argument(help="Id from `silence list`.", metavar="SILENCE_ID")],
    warehouse: Warehouse = None,
) -> None:
    """End a silence now; alerts that still fire are notified within seconds.

    Example: balancewatch silence end 3f9a01bc
    """
    settings = load(paths={"warehouse": warehouse})
    with _failing():
        found = end_silence(settings.paths.warehouse, silence_id, wall_ms())
    say(f"silence {silence_id} by {found.created_by} ended")


def ack(
    incident: Annotated[
        str,
        typer.Argument(
            help="An incident_id or its prefix, as `alerts` prints it.",
            metavar="INCIDENT",
            autocompletion=complete_incident,
        ),
    ],
    owner: Annotated[str, typer.Option(help="Person who handles the incident.", metavar="NAME", callback=_check_text)],
    note: Annotated[str, typer.Option(help="Message for others.", metavar="TEXT", callback=_check_text)],
    warehouse: Warehouse = None,
) -> None:
    """Acknowledge an incident; PagerDuty stops escalating.

    The relay forwards the acknowledgement to PagerDuty within seconds. `explain` and the board show it.

    Example: balancewatch ack c87a8d88 --owner ada --note "restarting the twin"
    """
    settings = load(paths={"warehouse": warehouse})
    with _failing():
        found, is_new = acknowledge(settings.paths.warehouse, incident, owner, note, wall_ms())
    say(f"{found['incident_id']} {'' if is_new else 'is already '}acknowledged by {owner}: {found['summary']}")


def canary(
    last: Annotated[int, typer.Option(help="Newest canary alerts to show.", min=1, max=10_000, metavar="N")] = 20,
    format_: Format = "table",
    warehouse: Warehouse = None,
) -> None:
    """Print how long canary alerts took from injection to delivery.

    A canary is a simulated twin that `run` injects. Exit code 1: no canary alert arrived for two intervals and a
    minute.

    Example: balancewatch canary

    Example: balancewatch canary --format json --last 288 | jq 'map(.seconds) | max'
    """
    settings = load(paths={"warehouse": warehouse})
    if not settings.canary.interval_seconds:
        fail("canary.interval_seconds = 0: the canary is off; set the interval in seconds, such as 300", code=2)
    try:
        arrived = read_canaries(settings.paths.warehouse, last)
    except WarehouseError as error:
        fail(str(error))
    rows = [
        {
            "injected_at": iso(row["changed_at"]),
            "delivered_at": iso(row["delivered_at"]),
            "seconds": round(max(0, (row["delivered_at"] - row["changed_at"]).total_seconds()), 3),
            "incident_id": row["incident_id"],
        }
        for row in arrived
    ]
    print_rows(rows, format_, "No canary alert has arrived yet.")
    if arrived and format_ == "table":
        slo, seconds = settings.canary.slo_seconds, [row["seconds"] for row in rows]
        kept = sum(took <= slo for took in seconds) / len(seconds)
        cuts: list[Any] = quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else seconds * 19
        say(
            f"injection to delivery: median {cuts[9]:.1f} s, 95 % within {cuts[18]:.1f} s, worst {max(seconds):.1f} s; "
            f"{kept:.1%} within canary.slo_seconds = {slo:g}"
        )
    age_ms = wall_ms() - to_ms(arrived[-1]["delivered_at"]) if arrived else None
    if age_ms is None or age_ms > lost_after_ms(settings):
        newest = "none has arrived" if age_ms is None else f"the newest arrived {age_ms // 60_000} min ago"
        fail(f"canary lost: {newest}, but one is due every {settings.canary.interval_seconds:g} s; is `run` up?")


def _matchers(texts: list[str], labels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    matchers: dict[str, tuple[str, ...]] = {}
    for text in texts:
        label, _, globs = text.partition("=")
        if label not in labels:
            fail(f"--match {text!r}: {label!r} is not a label; choose {', '.join(labels)}", code=2)
        if label in matchers:
            fail(f"--match {text!r}: {label} is given twice; write {label}=GLOB,GLOB", code=2)
        with _failing():
            matchers[label] = read_patterns("--match", label, globs)
    return matchers


def _end_ms(for_: str | None, until: str | None, now_ms: int) -> int:
    if (for_ is None) == (until is None):
        fail("give either --for, such as 2h, or --until, an ISO 8601 time", code=2)
    with _failing():
        if for_ is not None:
            return read_end_ms("--for", for_, now_ms, is_span=True)
        return read_end_ms("--until", str(until), now_ms, is_span=False)


_COLUMNS = ("silence_id", "state", "match", "created_by", "comment", "starts_at", "ends_at")


def _row(one: Silence, now_ms: int) -> dict[str, Any]:
    state = "active" if one.is_active(now_ms) else "ended" if one.ends_at_ms <= now_ms else "scheduled"
    times = iso(one.starts_at_ms, "seconds"), iso(one.ends_at_ms, "seconds")
    cells = (one.silence_id, state, describe_matchers(one.matchers), one.created_by, one.comment, *times)
    return dict(zip(_COLUMNS, cells, strict=True))
