"""`balancewatch alerts rules`: what one alert would do and why, of a kind or of an incident that there is."""

from dataclasses import replace
from typing import Annotated, Any, NoReturn

import typer
from deltalake import DeltaTable

from conf.location import Location
from conf.settings import Settings
from schemas.tables import ACKNOWLEDGEMENTS, SILENCES
from streaming.check.check import Subject, World, check
from streaming.check.check_command import FormatName, RulesFile, check_format
from streaming.check.check_printing import print_answer, print_json
from streaming.check.origins import Origins
from streaming.oncall.delivery_log import OperatorInput
from streaming.oncall.log_receiver import LogReceiver
from streaming.oncall.mute import make_mutes
from streaming.oncall.wiring import make_routes, names_of
from streaming.queries.rulebook import rulebook
from streaming.store.alerts import Filter, WarehouseError, read_alerts
from streaming.terminal.command import fail, load
from streaming.terminal.setting_options import Warehouse
from streaming.text.times import wall_ms
from streaming.warehouse.tables import table_path
from udfs.alerts.firing_limit import SEVERITIES
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.self_kinds import OWN_CLUSTER, SELF_FACTS


def rules(
    subject: Annotated[
        str, typer.Argument(help="A kind of alert, such as starved_queue; or an incident_id.", metavar="KIND|INCIDENT")
    ],
    cluster: Annotated[str | None, typer.Option(help="The cluster it would be in.")] = None,
    group: Annotated[str | None, typer.Option(help="The consumer group it would be about.")] = None,
    topic: Annotated[str | None, typer.Option(help="The topic it would be about.")] = None,
    severity: Annotated[
        str | None, typer.Option(help="critical, error, warning or info; the rule's own without.")
    ] = None,
    rules_file: RulesFile = None,
    format_: FormatName = "table",
    warehouse: Warehouse = None,
) -> None:
    """Say what an alert would do: when it fires and ends, whom it reaches, what keeps it quiet, which keys decide.

    Of a kind, or of an incident of the alerts table. Needs no secret of a receiver. Nothing is sent, and nothing
    written.

    Example: balancewatch alerts rules starved_queue --cluster prod --group billing

    Example: balancewatch alerts rules data_quality --topic rocketmq.pulls

    Example: balancewatch alerts rules 3f1c2a9be07d4455-1700000000000 --format json
    """
    check_format(format_)
    if severity not in (None, *SEVERITIES):
        fail(f"--severity {severity!r}: choose {', '.join(SEVERITIES)}", code=2)
    settings = load(paths={"warehouse": warehouse}, rules={"file": None if rules_file is None else str(rules_file)})
    world, rows = _world(settings)
    if subject in KIND_FACTS or subject in SELF_FACTS:
        answer = check(_imagined(Subject(subject, cluster or "", group, topic, severity)), world)
    else:
        row = next((row for row in rows if row["incident_id"] == subject), None)
        if row is None:
            _refuse(subject)
        given = {"--cluster": cluster, "--group": group, "--topic": topic, "--severity": severity}
        if flags := [flag for flag, value in given.items() if value is not None]:
            fail(f"{' '.join(flags)}: incident {subject} has its own; leave it out", code=2)
        answer = check(_subject_of(row), world, row)
    print_json(answer) if format_ == "json" else print_answer(answer)


def _refuse(subject: str) -> NoReturn:
    """An incident's id has a hyphen, and no kind has."""
    if "-" in subject:
        fail(f"INCIDENT {subject!r} is not in the alerts table; `balancewatch alerts --format json` has them")
    _refuse_kind(subject)


def _refuse_kind(kind: str) -> NoReturn:
    fail(
        f"kind = {kind!r}: the rules have no such kind; they have {', '.join(sorted(KIND_FACTS))}; "
        f"balancewatch tells of itself by {', '.join(sorted(SELF_FACTS))}",
        code=2,
    )


def _subject_of(row: dict[str, Any]) -> Subject:
    names = ("kind", "cluster", "consumer_group", "topic", "severity", "broker_name", "client_id", "cause")
    subject = Subject(**{name: row[name] for name in names})
    if subject.kind not in KIND_FACTS and subject.kind not in SELF_FACTS:
        _refuse_kind(subject.kind)
    return subject


def _imagined(subject: Subject) -> Subject:
    """As the alert would be. Leaves with 2 when what is needed is missing, or what it never has is given."""
    own = SELF_FACTS.get(subject.kind)
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


def _world(settings: Settings) -> tuple[World, list[dict[str, Any]]]:
    """What the answers rest on, and the newest row of each incident; nothing where there are no tables yet."""
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
        mutes=make_mutes(settings.mutes),
        incidents=rows,
        now_ms=wall_ms(),
    )
    return world, rows


def _silences(warehouse: Location) -> list[Any]:
    if not all(DeltaTable.is_deltatable(table_path(warehouse, one.name)) for one in (SILENCES, ACKNOWLEDGEMENTS)):
        return []  # Words would make them
    return OperatorInput(warehouse).read_silences() or []
