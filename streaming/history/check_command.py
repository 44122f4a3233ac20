"""`balancewatch check`: whether the settings can be used and what is in force, or what one alert would do and why."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conf.location import Location
from streaming.command import fail, load

if TYPE_CHECKING:
    from conf.settings import Settings
    from streaming.history.check import Subject, World

SEVERITIES = ("critical", "error", "warning", "info")


def check(
    incident_id: Annotated[
        str | None, typer.Argument(help="An incident of the alerts table.", metavar="INCIDENT")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="A kind of alert, such as starved_queue.")] = None,
    cluster: Annotated[str | None, typer.Option(help="The cluster it would be in.")] = None,
    group: Annotated[str | None, typer.Option(help="The consumer group it would be about.")] = None,
    topic: Annotated[str | None, typer.Option(help="The topic it would be about.")] = None,
    severity: Annotated[
        str | None, typer.Option(help="critical, error, warning or info; the rule's own without.")
    ] = None,
    rules: Annotated[Path | None, typer.Option("--rules", help="A rules file [rules.file]")] = None,
    format_: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
    warehouse: Annotated[
        str | None, typer.Option("--warehouse", help="Delta tables: a folder, or s3://bucket/prefix [paths.warehouse]")
    ] = None,
) -> None:
    """Check the settings; or say what an alert would do: when it fires and ends, whom it reaches, what keeps it quiet.

    Without arguments every setting is validated, secrets of the receivers included, and the rules in force are printed
    with who set each. A setting that cannot be used ends it with 2. Nothing is sent, and nothing written.

    Example: balancewatch check --rules stricter.toml

    Example: balancewatch check --kind starved_queue --cluster prod --group billing

    Example: balancewatch check --kind data_quality --topic rocketmq.pulls

    Example: balancewatch check 3f1c2a9be07d4455-1700000000000 --format json
    """
    from streaming.history.check import Subject
    from streaming.history.check import check as check_ruled
    from streaming.history.check_own import OWN_FACTS, check_own
    from streaming.history.check_printing import print_answer, print_json, print_settings

    if format_ not in ("table", "json"):
        fail(f"--format {format_!r}: choose table or json", code=2)
    if severity not in (None, *SEVERITIES):
        fail(f"--severity {severity!r}: choose {', '.join(SEVERITIES)}", code=2)
    settings = load(paths={"warehouse": warehouse}, rules={"file": None if rules is None else str(rules)})
    if incident_id is None and kind is None:
        if any(one is not None for one in (cluster, group, topic, severity)):
            fail("--kind is missing; give it with --cluster, or an INCIDENT, or nothing at all", code=2)
        answer = _in_force(settings)
        print_json(answer) if format_ == "json" else print_settings(answer)
        return
    if incident_id is not None and any(one is not None for one in (kind, cluster, group, topic, severity)):
        fail("give either an INCIDENT or --kind and what goes with it", code=2)
    world, rows = _world(settings)
    row: dict[str, Any] | None = None
    if incident_id is not None:
        row = next((one for one in rows if one["incident_id"] == incident_id), None)
        if row is None:
            fail(f"INCIDENT {incident_id!r} is not in the alerts table; `balancewatch alerts --format json` has them")
        subject = _subject_of(row)
    else:
        subject = _imagined(Subject(_known_kind(str(kind)), str(cluster or ""), group, topic, severity))
    answer = (check_own if subject.kind in OWN_FACTS else check_ruled)(subject, world, row)
    print_json(answer) if format_ == "json" else print_answer(answer)


def _subject_of(row: dict[str, Any]) -> "Subject":
    from streaming.history.check import Subject

    names = ("kind", "cluster", "consumer_group", "topic", "severity", "broker_name", "client_id", "cause")
    subject = Subject(**{name: row[name] for name in names})
    _known_kind(subject.kind)
    return subject


def _known_kind(kind: str) -> str:
    from streaming.history.check_own import OWN_FACTS
    from udfs.kinds import KIND_FACTS

    if kind not in KIND_FACTS and kind not in OWN_FACTS:
        fail(
            f"kind = {kind!r}: the rules have no such kind; they have {', '.join(sorted(KIND_FACTS))}; "
            f"balancewatch tells of itself by {', '.join(sorted(OWN_FACTS))}",
            code=2,
        )
    return kind


def _imagined(subject: "Subject") -> "Subject":
    """As the alert would be. Leaves with 2 when what is needed is missing, or what it never has is given."""
    from dataclasses import replace

    from streaming.history.check_own import OWN_FACTS
    from streaming.oncall.own_alerts import OWN_CLUSTER
    from udfs.kinds import KIND_FACTS

    own = OWN_FACTS.get(subject.kind)
    is_of_group = own is None and KIND_FACTS[subject.kind].is_of_group
    if not subject.cluster and (own is None or own.is_of_cluster):
        fail("--cluster is missing; overrides, routes and silences may ask for it", code=2)
    if is_of_group and subject.consumer_group is None:
        fail(f"--group is missing; {subject.kind} is judged for one consumer group", code=2)
    if not is_of_group and subject.consumer_group is not None:
        why = "is judged for a cluster's brokers" if own is None else "is about no consumer group"
        fail(f"--group {subject.consumer_group!r}: {subject.kind} {why}; leave it out", code=2)
    if own is None:
        return subject
    if subject.topic is not None and not own.is_of_topic:
        fail(f"--topic {subject.topic!r}: {subject.kind} is about no topic; leave it out", code=2)
    return replace(subject, cluster=subject.cluster if own.is_of_cluster else OWN_CLUSTER, cause=own.cause)


def _in_force(settings: "Settings") -> dict[str, Any]:
    """Raises typer.Exit with 2 when a receiver's secret is missing."""
    from conf.settings import SettingsError
    from streaming.history.origins import Origins
    from streaming.oncall.switchboard import make_receivers
    from streaming.rulebook import rulebook
    from udfs.rules import OF_ALL

    try:
        receivers = make_receivers(settings.oncall)
    except SettingsError as error:
        fail(str(error), code=2)
    for receiver in receivers.values():
        receiver.close()
    book, origins = rulebook(settings), Origins(settings)
    base = asdict(book.base)
    kinds = base.pop("kinds")
    values = {**base, **{f"kinds.{kind}.{name}": value for kind in kinds for name, value in kinds[kind].items()}}
    own = {name for name in values if not name.startswith("kinds.") or name.startswith(f"kinds.{OF_ALL}.")}
    own |= {
        name for name in values if name not in own and values[name] != values[f"kinds.{OF_ALL}.{name.split('.')[2]}"]
    }
    return {
        "files": [str(path) for path in settings.files() if path.is_file()],
        "keys": [
            {"key": f"rules.{name}", "value": value, "set_by": origins.of_rule(name)}
            for name, value in values.items()
            if name in own
        ],
        "overrides": [
            {
                "name": one.name,
                "cluster": one.cluster,
                "consumer_group": one.consumer_group,
                "sets": dict(one.changes()),
            }
            for one in book.overrides
        ],
        "receivers": list(receivers),
        "routes": [route.name for route in settings.oncall.routes],
    }


def _world(settings: "Settings") -> tuple["World", list[dict[str, Any]]]:
    """What the answers rest on, and the newest row of each incident; nothing where there are no tables yet."""
    from streaming.history.alerts import Filter, WarehouseError, read_alerts
    from streaming.history.check import World
    from streaming.history.origins import Origins
    from streaming.oncall.log_receiver import LogReceiver
    from streaming.oncall.switchboard import make_routes, names_of
    from streaming.rulebook import rulebook

    try:
        rows = read_alerts(settings.paths.warehouse, Filter(), current=True)
    except WarehouseError:
        rows = []
    names = [one.name for one in settings.oncall.receivers]
    world = World(
        settings=settings,
        rulebook=rulebook(settings),
        origins=Origins(settings),
        routes=make_routes(settings.oncall, {name: LogReceiver(name) for name in names}),  # names alone: no secrets
        receivers=[name for one in settings.oncall.receivers for name in names_of(one)],
        quiet=[one.name for one in settings.oncall.receivers if one.type == "log"],
        silences=_silences(settings.paths.warehouse),
        incidents=rows,
        now_ms=time.time_ns() // 1_000_000,
    )
    return world, rows


def _silences(warehouse: Location) -> list[Any]:
    from deltalake import DeltaTable

    from schemas.tables import ACKNOWLEDGEMENTS, SILENCES
    from streaming.oncall.ledger import Words
    from streaming.queries.warehouse import table_path

    if not all(DeltaTable.is_deltatable(table_path(warehouse, one.name)) for one in (SILENCES, ACKNOWLEDGEMENTS)):
        return []  # Words would make them
    return Words(warehouse).read_silences() or []
