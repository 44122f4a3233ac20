"""`balancewatch silence`: keep alerts quiet for a while, in somebody's name and for a reason."""

import secrets
from dataclasses import replace
from typing import Annotated, Any

import typer

from conf.location import Location
from streaming.oncall.delivery_log import OperatorInput
from streaming.oncall.mute import make_mutes
from streaming.oncall.silence_rows import UnreadableSilence
from streaming.store.alerts import Filter, WarehouseError, read_alerts
from streaming.terminal.command import fail, load
from streaming.terminal.printing import print_rows
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say
from streaming.text.time_text import parse_moment, parse_span
from streaming.text.times import iso, wall_ms
from udfs.alerts.pattern import LABELS, Matchers, describe_matchers, is_match
from udfs.alerts.pattern import MOST_CHARACTERS as MOST_PATTERN_CHARACTERS
from udfs.alerts.silence import Silence

MOST_MS = 366 * 86_400_000
MOST_CHARACTERS = 1_000

silence = typer.Typer(
    help="Keep alerts quiet for a while. A silenced alert that still fires when the silence ends is told then.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Format = Annotated[str, typer.Option("--format", help="table, json or csv.")]


@silence.command()
def add(
    owner: Annotated[str, typer.Option(help="Who answers for it.")],
    reason: Annotated[str, typer.Option(help="Why.")],
    match: Annotated[
        list[str] | None,
        typer.Option(help="LABEL=GLOB[,GLOB]; repeat for more, all must match. cluster, consumer_group, kind, ..."),
    ] = None,
    for_: Annotated[str | None, typer.Option("--for", help="For how long: 90s, 45m, 2h, 1d.")] = None,
    until: Annotated[
        str | None, typer.Option(help="Until when: 03:12, or ISO 8601; local where it names no zone.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the firing incidents it would cover.")] = False,
    format_: Format = "table",
    warehouse: Warehouse = None,
) -> None:
    """Add a silence; prints it, and the firing incidents it covers.

    Example: balancewatch silence add --match consumer_group=billing --for 2h --owner ada --reason "release 4.2"

    Example: balancewatch silence add --match cluster=staging-* --match severity=warning,info --until 2026-12-01
    --owner ada --reason "load test" --dry-run
    """

    _check_format(format_)
    for flag, text in (("--owner", owner), ("--reason", reason)):
        if not text.strip() or len(text) > MOST_CHARACTERS:
            fail(f"{flag} {text[:50]!r}: give 1 to {MOST_CHARACTERS} characters", code=2)
    matchers = _matchers(match or [])
    now_ms = wall_ms()
    made = Silence(secrets.token_hex(4), matchers, owner, reason, now_ms, _end_ms(for_, until, now_ms))
    settings = load(paths={"warehouse": warehouse})
    covered = _covered(settings.paths.warehouse, made)
    if dry_run:
        print_rows(covered, format_, "It would cover no incident that fires now.")  # type: ignore[arg-type]  # checked
        return
    OperatorInput(settings.paths.warehouse).add_silence(made, now_ms)
    print_rows([{**_row(made, now_ms), "covers_now": len(covered)}], format_, "")  # type: ignore[arg-type]  # checked


@silence.command("list")
def list_(
    all_: Annotated[bool, typer.Option("--all", help="Those that are over, too.")] = False,
    format_: Format = "table",
    warehouse: Warehouse = None,
) -> None:
    """Print the silences and mutes that are in force, and rows that cannot be read, which silence nothing.

    Mutes are of the settings: `balancewatch check` prints all of them, `silence end` ends none.

    Example: balancewatch silence list --format json
    """

    _check_format(format_)
    settings = load(paths={"warehouse": warehouse})
    now_ms = wall_ms()
    operator_input = OperatorInput(settings.paths.warehouse, may_write=False)
    found = sorted(operator_input.read_silences() or [], key=lambda one: one.ends_at_ms)
    found += [window for mute in make_mutes(settings.mutes) if (window := mute.at(now_ms)) is not None]
    rows = [_row(one, now_ms) for one in found if all_ or one.ends_at_ms > now_ms]
    rows += [_unreadable_row(one) for one in operator_input.unreadable]
    print_rows(rows, format_, "No silence is in force.")  # type: ignore[arg-type]  # checked above


@silence.command()
def end(
    silence_id: Annotated[str, typer.Argument(help="As `silence list` prints it.")],
    warehouse: Warehouse = None,
) -> None:
    """End a silence now: what it covered and still fires is told within seconds.

    Example: balancewatch silence end 3f9a01bc
    """

    settings = load(paths={"warehouse": warehouse})
    now_ms = wall_ms()
    found = next((one for one in _silences(settings.paths.warehouse) if one.silence_id == silence_id), None)
    if found is None:
        fail(f"SILENCE_ID {silence_id!r} is not known; `balancewatch silence list` has them", code=2)
    if found.ends_at_ms <= now_ms:
        fail(f"silence {silence_id} is over since {iso(found.ends_at_ms, 'seconds')}")
    OperatorInput(settings.paths.warehouse).add_silence(replace(found, ends_at_ms=now_ms), now_ms)
    say(f"silence {silence_id} of {found.created_by} is over")


def _silences(warehouse: Location) -> list[Silence]:

    return OperatorInput(warehouse, may_write=False).read_silences() or []


def _covered(warehouse: Location, made: Silence) -> list[dict[str, Any]]:
    """Incidents that fire now and that it would keep quiet; none where there is no alerts table yet."""

    try:
        rows = read_alerts(warehouse, Filter(state="FIRING"), current=True)
    except WarehouseError:
        return []
    columns = ("incident_id", "kind", "severity", "cluster", "consumer_group", "topic", "summary")
    return [{name: row[name] for name in columns} for row in rows if is_match(made.matchers, row)]


def _matchers(texts: list[str]) -> Matchers:

    if not texts:
        fail("give at least one --match LABEL=GLOB; --match 'cluster=*' covers everything", code=2)
    matchers: dict[str, tuple[str, ...]] = {}
    for text in texts:
        label, _, globs = text.partition("=")
        if label not in LABELS:
            fail(f"--match {text!r}: {label!r} is no label; choose {', '.join(LABELS)}", code=2)
        patterns = tuple(glob.strip() for glob in globs.split(",") if glob.strip())
        if not patterns or len(globs) > MOST_PATTERN_CHARACTERS:
            fail(
                f"--match {text[:50]!r}: give a pattern of up to {MOST_PATTERN_CHARACTERS} characters after {label}=",
                code=2,
            )
        if label in matchers:
            fail(f"--match {text!r}: {label} is given twice; write {label}=GLOB,GLOB", code=2)
        matchers[label] = patterns
    return matchers


def _end_ms(for_: str | None, until: str | None, now_ms: int) -> int:

    if (for_ is None) == (until is None):
        fail("give either --for, such as 2h, or --until, an ISO 8601 time", code=2)
    if for_ is not None:
        span_ms = parse_span(for_)
        if not span_ms:
            fail(f"--for {for_!r} is no span such as 90s, 45m, 2h or 1d", code=2)
        end_ms = now_ms + span_ms
    else:
        try:
            end_ms = parse_moment(str(until), now_ms, is_ahead=True)
        except ValueError as error:
            fail(f"--until {error}", code=2)
    if not now_ms < end_ms <= now_ms + MOST_MS:
        given = f"--for {for_}" if for_ is not None else f"--until {until}"
        fail(f"{given}: must end within the next 366 days", code=2)
    return end_ms


def _row(one: Silence, now_ms: int) -> dict[str, Any]:

    return {
        "silence_id": one.silence_id,
        "state": "active" if one.is_active(now_ms) else "over" if one.ends_at_ms <= now_ms else "to come",
        "match": describe_matchers(one.matchers),
        "created_by": one.created_by,
        "comment": one.comment,
        "starts_at": iso(one.starts_at_ms, "seconds"),
        "ends_at": iso(one.ends_at_ms, "seconds"),
    }


def _unreadable_row(one: UnreadableSilence) -> dict[str, Any]:
    return {
        "silence_id": one.silence_id,
        "state": "unreadable",
        "match": f"nothing: {one.why}; it says {one.matchers[:MOST_CHARACTERS]}",
        "created_by": one.created_by,
        "comment": one.comment,
        "starts_at": None,
        "ends_at": None,
    }


def _check_format(format_: str) -> None:
    if format_ not in ("table", "json", "csv"):
        fail(f"--format {format_!r}: choose table, json or csv", code=2)
