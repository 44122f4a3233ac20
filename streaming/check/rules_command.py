"""`balancewatch alerts rules`: when an alert of a kind fires and ends, and who receives it; or those of an incident."""

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, NoReturn

import typer
from rich.table import Table
from rich.text import Text

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.check.check import Subject, World, check
from streaming.check.check_command import FormatName, RulesFile, describe_window, keys_table
from streaming.history.query_options import check_format
from streaming.queries.rulebook import rulebook
from streaming.relay.receivers import make_routes, names_of
from streaming.relay.receivers.log import LogReceiver
from streaming.relay.silences import make_mutes
from streaming.relay.tables import RelayTables
from streaming.store.alerts import Filter, UnknownIncidentError, WarehouseError, find_incident, read_alerts
from streaming.store.store import History
from streaming.terminal.command import fail, load
from streaming.terminal.setting_options import Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import write_json
from streaming.text.suggestions import closest
from streaming.text.times import wall_ms
from udfs.alerts.firing_limit import SEVERITIES
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.self_kinds import OWN_CLUSTER, SELF_FACTS

_INCIDENT = re.compile(r"[0-9a-f]{4,16}|.*-.*")
"""An id or its prefix. No kind has a hyphen."""


def rules(
    subject: Annotated[
        str,
        typer.Argument(
            help="A kind of alert, such as starved_queue; or an incident_id or its prefix.", metavar="KIND|INCIDENT"
        ),
    ],
    cluster: Annotated[str | None, typer.Option(help="Cluster of the alert.", metavar="NAME")] = None,
    group: Annotated[str | None, typer.Option(help="Consumer group of the alert.", metavar="NAME")] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of the alert.", metavar="NAME")] = None,
    severity: Annotated[
        str | None, typer.Option(help="critical, error, warning or info. Default: the rule's.", metavar="SEVERITY")
    ] = None,
    rules_file: RulesFile = None,
    format_: FormatName = "table",
    warehouse: Warehouse = None,
) -> None:
    """Explain an alert: when it fires and ends, who receives it, what inhibits it, which keys decide.

    Give a kind of alert, or an incident of the alerts table. The command needs no secret of a receiver, sends nothing
    and writes nothing.

    Example: balancewatch alerts rules starved_queue --cluster prod --group billing

    Example: balancewatch alerts rules data_quality --topic rocketmq.pulls

    Example: balancewatch alerts rules 3f1c2a9b --format json
    """
    form = check_format(format_, ("table", "json"))
    if severity not in (None, *SEVERITIES):
        fail(f"--severity {severity!r}: choose {', '.join(SEVERITIES)}", code=2)
    settings = load(paths={"warehouse": warehouse}, rules={"file": None if rules_file is None else str(rules_file)})
    world = _world(settings)
    if subject in KIND_FACTS or subject in SELF_FACTS:
        answer = check(_imagined(Subject(subject, cluster or "", group, topic, severity)), world)
    else:
        row = _incident(subject, world)
        given = {"--cluster": cluster, "--group": group, "--topic": topic, "--severity": severity}
        if flags := [flag for flag, value in given.items() if value is not None]:
            fail(f"{' '.join(flags)}: an incident has its own; leave it out", code=2)
        if row["kind"] not in KIND_FACTS and row["kind"] not in SELF_FACTS:
            _refuse_kind(row["kind"])
        answer = check(Subject(**{field.name: row[field.name] for field in fields(Subject)}), world, row)
    if form == "json":
        write_json(answer, default=str)
    else:
        _print(answer)


def _incident(text: str, world: World) -> Mapping[str, Any]:
    """Return the newest row of the incident with this id or prefix. Leaves with 1, or with 2 for an unknown kind."""
    if not _INCIDENT.fullmatch(text) and not any(row["incident_id"].startswith(text) for row in world.incidents):
        _refuse_kind(text)
    try:
        incident_id = find_incident(History(world.settings.paths.warehouse, [ALERTS]), text)
    except (WarehouseError, UnknownIncidentError) as error:
        fail(str(error))
    row = next((row for row in world.incidents if row["incident_id"] == incident_id), None)
    return row or fail(f"INCIDENT {incident_id} is the canary's, which no rule decides")


def _refuse_kind(kind: str) -> NoReturn:
    near = closest(kind, [*KIND_FACTS, *SELF_FACTS])
    hint = f"nearest: {', '.join(near)}; " if near else ""
    fail(
        f"kind {kind!r} is unknown; {hint}kinds of the rules: {', '.join(sorted(KIND_FACTS))}; "
        f"kinds about balancewatch itself: {', '.join(sorted(SELF_FACTS))}",
        code=2,
    )


def _imagined(subject: Subject) -> Subject:
    """Return the alert of this kind. Leaves with 2 where a required label is missing or an unsupported one given."""
    own = SELF_FACTS.get(subject.kind)
    is_of_group = own is None and KIND_FACTS[subject.kind].is_of_group
    if not subject.cluster and (own is None or own.is_of_cluster):
        fail("--cluster is missing; overrides, routes and silences can depend on it", code=2)
    if is_of_group and subject.consumer_group is None:
        fail(f"--group is missing; {subject.kind} is about one consumer group", code=2)
    if not is_of_group and subject.consumer_group is not None:
        why = "is about brokers" if own is None else "is not about a consumer group"
        fail(f"--group {subject.consumer_group!r}: {subject.kind} {why}; leave it out", code=2)
    if own is None:
        return subject
    if subject.topic is not None and not own.is_of_topic:
        fail(f"--topic {subject.topic!r}: {subject.kind} is not about a topic; leave it out", code=2)
    return replace(subject, cluster=subject.cluster if own.is_of_cluster else OWN_CLUSTER, cause=own.cause)


def _world(settings: Settings) -> World:
    """Return settings, rules, routes and silences, and the newest row of each incident (none without tables)."""
    try:
        rows = read_alerts(settings.paths.warehouse, Filter(), current=True)
    except WarehouseError:
        rows = []
    names = [one.name for one in settings.oncall.receivers]
    return World(
        settings=settings,
        rulebook=rulebook(settings),
        routes=make_routes(settings.oncall, {name: LogReceiver(name) for name in names}),  # names only: no secrets
        receivers=[name for one in settings.oncall.receivers for name in names_of(one)],
        quiet=[one.name for one in settings.oncall.receivers if one.type == "log"],
        silences=RelayTables(settings.paths.warehouse, may_write=False).read_silences() or [],
        mutes=make_mutes(settings.mutes),
        incidents=rows,
        now_ms=wall_ms(),
    )


def _print(answer: dict[str, Any]) -> None:
    """Print the explanation of an alert, then the keys that decide it."""
    console = VisibleConsole()
    table = Table(show_header=False, show_lines=True)
    table.add_column("question", no_wrap=True)
    table.add_column("answer", overflow="fold")
    for question, text in _lines(answer):
        table.add_row(Text(question), Text(text))
    console.print(table)
    console.print(keys_table(answer["keys"]))


def _lines(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the questions and their answers."""
    subject = answer["subject"]
    lines = [("alert", " ".join(f"{name}={value}" for name, value in subject.items()))]
    if incident := answer["incident"]:
        now = f"{incident['state']} since {incident['changed_at']}, started at {incident['started_at']}"
        lines.append(("now", f"{now}\n{incident['summary']}"))
    receivers = "\n".join(
        f"{one['severity']}: {one['receiver']}, route {one['route']!r}" for one in answer["receivers"]
    )
    silences = "\n".join(
        f"{one['severity']}: {one['silence_id']} by {one['created_by']} until {one['until']} ({one['matchers']}): "
        f"{one['comment']}"
        for one in answer["silences"]
    )
    mutes = "\n".join(f"{mute['severity']}: {describe_window(mute)}" for mute in answer["mutes"])
    if means := answer.get("means"):
        lines.append(("means", means))
    reaches = "\n".join(filter(None, (answer.get("reaches"), receivers)))
    return [
        *lines,
        ("fires", answer["fires"]),
        ("ends", answer["ends"]),
        ("severity", " or ".join(answer["severities"])),
        ("receivers", reaches or "none: no route matches"),
        ("silenced", silences or "no active silence matches"),
        ("muted", mutes or "no mute matches"),
        ("inhibited by", _describe_explained(answer["inhibited_by"])),
        ("runbook", answer["runbook_url"] or "none"),
    ]


def _describe_explained(explained: dict[str, Any]) -> str:
    if explained["is"]:
        return f"{explained['is']}, so it does not page: {explained['summary'] or 'the table has no row of it'}"
    kinds = ", ".join(explained["kinds"])
    if not kinds:
        return "no kind"
    if not explained["may_be"]:
        return f"no open incident; possible kinds: {kinds}"
    may = "\n".join(f"{one['incident_id']} ({one['kind']}): {one['summary']}" for one in explained["may_be"])
    return f"possibly, then it does not page:\n{may}"
