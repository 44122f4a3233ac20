"""`balancewatch check`: validate the settings and print the rules in force.

`balancewatch alerts rules`: when an alert of a kind fires and ends, who receives it; or those of an incident.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import reduce
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.table import Table
from rich.text import Text

from conf.settings import Settings, SettingsError
from schemas.tables import ALERTS
from streaming.queries.rulebook import rulebook
from streaming.relay.mutes import Mute, make_mutes
from streaming.relay.receivers import make_receivers, make_routes, names_of
from streaming.relay.tables import RelayTables
from streaming.store.alerts import UnknownIncidentError, find_incident, read_current_alerts
from streaming.store.store import History
from streaming.terminal.command import fail, load
from streaming.terminal.completion import CLUSTERS, GROUPS, complete_choices, complete_subject
from streaming.terminal.format_option import format_option
from streaming.terminal.printing import Layout, print_table
from streaming.terminal.setting_options import Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import write_json
from streaming.text.suggestions import closest
from streaming.text.times import span_text, time_text, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.firing_limit import ALERTS_LIMITED, SEVERITIES
from udfs.alerts.kinds import KIND_FACTS, KindFacts
from udfs.alerts.pattern import LABELS, describe_matchers, is_match
from udfs.alerts.prose import count
from udfs.alerts.routing import WATCHDOG, Route, pick_receivers, pick_watchdog_receivers
from udfs.alerts.rulebook import Rulebook
from udfs.alerts.rules import OF_ALL, Rules
from udfs.alerts.runbook import runbook_url
from udfs.alerts.self_kinds import DELIVERY_FAILED, KEY, LIMITS, OWN_CLUSTER, SELF_FACTS
from udfs.alerts.silence import Silence, pick_silence
from udfs.alerts.static_labels import describe_labels, pick_static_labels

FLOORS = {
    "channel_expired_ms": (30_000, "clients send a heartbeat every 30 s"),
    "pull_silence_ms": (20_000, "an idle healthy queue is pulled every 15 to 20 s"),
    "settle_ms": (20_000, "clients rebalance every 20 s"),
    "heartbeat_late_ms": (30_000, "clients send a heartbeat every 30 s"),
    "consume_silence_ms": (5_000, "clients commit their offsets every 5 s"),
}
"""Key of the rules to the shortest useful value, and the interval it comes from."""


def floor_warnings(rulebook: Rulebook) -> Iterator[str]:
    """Yield a sentence for each threshold below its floor, of the rules and of each override."""
    found = [("rules", key, getattr(rulebook.base, key)) for key in FLOORS]
    for override in rulebook.overrides:
        found += [(f"override {override.name!r}", key, value) for key, value in override.changes() if key in FLOORS]
    for where, key, value in found:
        floor_ms, reason = FLOORS[key]
        if value < floor_ms:
            meant = f'; the unit is ms, write "{value}s" for seconds' if value < 1_000 else ""
            yield f"{where}: {key} = {value} is below {span_text(floor_ms)}, but {reason}{meant}"


RulesFile = Annotated[Path | None, typer.Option("--rules", help="Rules file [rules.file]", metavar="FILE")]
FormatName = Annotated[str, format_option("table", "json")]


def check(
    rules_file: RulesFile = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also try Kafka, RocketMQ, tables, checkpoints and receivers.")
    ] = False,
    format_: FormatName = "table",
    warehouse: Warehouse = None,
) -> None:
    """Validate the settings and print the rules in force; --connect tries all connections.

    Each rule is printed with its origin. Receivers' secrets are validated, too. Without --connect the command sends and
    writes nothing. `balancewatch alerts rules` explains a kind of alert under these settings.

    With --connect a line for each connection says ok, failed or skipped: Kafka with its topics and rights, NameServers,
    brokers and ACL (in a JVM), tables, checkpoints, receivers. It takes up to 30 seconds and sends no event and no
    alert. It writes a temporary file to each folder, or an object to the bucket, and deletes it.

    Exit codes: 0 valid, and no connection failed; 1 a connection failed; 2 a setting is invalid.

    Example: balancewatch check

    Example: balancewatch check --connect

    Example: balancewatch check --rules stricter.toml --format json
    """
    settings = load(paths={"warehouse": warehouse}, rules={"file": None if rules_file is None else str(rules_file)})
    answer = _in_force(settings)
    if format_ == "table":
        _print_settings(answer)
    if connect:
        from streaming.check.connections import try_connections  # noqa: PLC0415  # imports Kafka and Spark's jars: 1 s

        findings = try_connections(settings, is_shown=format_ == "table")
        answer["connections"] = [asdict(finding) for finding in findings]
    if format_ == "json":
        write_json(answer, default=str)
    if any(finding["outcome"] == "failed" for finding in answer.get("connections", ())):
        raise typer.Exit(1)


def _in_force(settings: Settings) -> dict[str, Any]:
    """Return the settings in force. Leaves with 2 where a receiver's secret is missing."""
    try:
        receivers = make_receivers(settings.oncall)
    except SettingsError as error:
        fail(str(error), code=2)
    for receiver in receivers.values():
        receiver.close()
    book = rulebook(settings)
    base = asdict(book.base)
    kinds = base.pop("kinds")
    own = {
        f"kinds.{kind}.{name}": value
        for kind, of_kind in kinds.items()
        for name, value in of_kind.items()
        if kind == OF_ALL or value != kinds[OF_ALL][name]
    }
    return {
        "files": [str(path) for path in settings.files() if path.is_file()],
        "keys": [
            {"key": f"rules.{name}", "value": value, "set_by": settings.origin_of(f"rules.{name}")}
            for name, value in {**base, **own}.items()
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
        "mutes": [describe_mute(mute, wall_ms()) for mute in make_mutes(settings.mutes)],
        "warnings": list(floor_warnings(book)),
    }


def describe_mute(mute: Mute, now_ms: int) -> dict[str, Any]:
    window = mute.next_window(now_ms)
    return {
        "name": mute.name,
        "matchers": describe_matchers(mute.matchers),
        "windows": mute.describe(),
        "is_open": window.is_active(now_ms),
        "from": time_text(window.starts_at_ms),
        "until": time_text(window.ends_at_ms),
    }


def _print_settings(answer: dict[str, Any]) -> None:
    console = VisibleConsole()
    print_keys(answer["keys"])
    for override in answer["overrides"]:
        where = f"cluster {override['cluster']}, consumer_group {override['consumer_group']}"
        console.print(Text(f"override {override['name']!r}: {where}"))
        for key, value in override["sets"].items():
            console.print(Text(f"  {key} = {_describe(value)}"))
    console.print(Text(f"receivers: {', '.join(answer['receivers'])}; routes: {', '.join(answer['routes'])}"))
    for mute in answer["mutes"]:
        console.print(Text(f"mute {describe_window(mute)}"))
    for warning in answer["warnings"]:
        console.print(Text(f"warning: {warning}"))
    console.print(Text("The settings are valid."))


def describe_window(mute: dict[str, Any]) -> str:
    when = f"open until {mute['until']}" if mute["is_open"] else f"next from {mute['from']} until {mute['until']}"
    return f"{mute['name']!r} ({mute['matchers']}), {mute['windows']}: {when}"


def print_keys(keys: list[dict[str, Any]]) -> None:
    layout: Layout = {
        "key": itemgetter("key"),
        "value": lambda row: _describe(row["value"]),
        "set by": itemgetter("set_by"),
    }
    print_table(keys, layout)


def _describe(value: Any) -> str:
    """Return the value as in TOML; an empty severity means the rule's."""
    if isinstance(value, bool):
        return str(value).lower()
    return "the rule's" if value in (None, "") else str(value)


_INCIDENT = re.compile(r"[0-9a-f]{4,16}|.*-.*")
"""An id or its prefix. No kind has a hyphen."""


INCIDENT_COLUMNS = (
    "incident_id", "state", "severity", "cause", "reason", "started_at", "fired_at", "changed_at", "summary"
)  # fmt: skip


Alert = Mapping[str, str | None]
"""The labels of the alert to explain: all of LABELS of a row of the alerts table, the given ones of a question."""


class World:
    """Settings, rules, routes and silences, and the newest row of each incident (none without tables)."""

    def __init__(self, settings: Settings) -> None:
        oncall, warehouse = settings.oncall, settings.paths.warehouse
        self.settings = settings
        self.rulebook = rulebook(settings)
        self.routes: Sequence[Route] = make_routes(oncall)
        self.receivers = [name for one in oncall.receivers for name in names_of(one)]
        self.quiet = [one.name for one in oncall.receivers if one.type == "log"]
        self.silences: Sequence[Silence] = RelayTables(warehouse, may_write=False).read_silences() or []
        self.mutes: Sequence[Mute] = make_mutes(settings.mutes)
        self.now_ms = wall_ms()
        self.incidents: Sequence[Mapping[str, Any]] = []
        with suppress(WarehouseError):
            self.incidents = read_current_alerts(warehouse)


def rules(
    subject: Annotated[
        str,
        typer.Argument(
            help="A kind of alert, such as starved_queue; or an incident_id or its prefix.",
            metavar="KIND|INCIDENT",
            autocompletion=complete_subject((*KIND_FACTS, *SELF_FACTS)),
        ),
    ],
    cluster: Annotated[
        str | None, typer.Option(help="Cluster of the alert.", metavar="NAME", autocompletion=CLUSTERS)
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Consumer group of the alert.", metavar="NAME", autocompletion=GROUPS)
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of the alert.", metavar="NAME")] = None,
    severity: Annotated[
        str | None,
        typer.Option(
            help="critical, error, warning or info. Default: the rule's.",
            metavar="SEVERITY",
            autocompletion=complete_choices(SEVERITIES),
        ),
    ] = None,
    rules_file: RulesFile = None,
    format_: FormatName = "table",
    warehouse: Warehouse = None,
) -> None:
    """Explain an alert: when it fires and ends, who receives it, what inhibits it, which keys decide.

    Give a kind of alert, or an incident of the alerts table. Without --cluster or --group the answer is the general
    rule: what is set for certain clusters or groups may differ. The command needs no secret of a receiver, sends
    nothing and writes nothing.

    Example: balancewatch alerts rules starved_queue

    Example: balancewatch alerts rules starved_queue --cluster prod --group billing

    Example: balancewatch alerts rules data_quality --topic rocketmq.pulls

    Example: balancewatch alerts rules 3f1c2a9b --format json
    """
    if severity not in (None, *SEVERITIES):
        fail(f"--severity {severity!r}: choose {', '.join(SEVERITIES)}", code=2)
    settings = load(paths={"warehouse": warehouse}, rules={"file": None if rules_file is None else str(rules_file)})
    world = World(settings)
    if subject in KIND_FACTS or subject in SELF_FACTS:
        given = {"kind": subject, "severity": severity, "cluster": cluster, "consumer_group": group, "topic": topic}
        answer = explain_alert(_imagined({name: value for name, value in given.items() if value}), world)
    else:
        row = _incident(subject, world)
        options = {"--cluster": cluster, "--group": group, "--topic": topic, "--severity": severity}
        if flags := [flag for flag, value in options.items() if value is not None]:
            fail(f"{' '.join(flags)}: an incident has its own; leave it out", code=2)
        if row["kind"] not in KIND_FACTS and row["kind"] not in SELF_FACTS:
            _refuse_kind(row["kind"])
        answer = explain_alert({name: row[name] for name in LABELS}, world, row)
    if format_ == "json":
        write_json(answer, default=str)
        return
    table = Table(show_header=False, show_lines=True)
    table.add_column("question", no_wrap=True)
    table.add_column("answer", overflow="fold")
    for question, text in _lines(answer):
        table.add_row(Text(question), Text(text))
    VisibleConsole().print(table)
    print_keys(answer["keys"])


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


def _imagined(alert: Alert) -> Alert:
    """Return the alert of this kind. Leaves with 2 where an unsupported label is given."""
    kind, group, topic = str(alert["kind"]), alert.get("consumer_group"), alert.get("topic")
    own = SELF_FACTS.get(kind)
    if group is not None and (own is not None or not KIND_FACTS[kind].is_of_group):
        why = "is about brokers" if own is None else "is not about a consumer group"
        fail(f"--group {group!r}: {kind} {why}; leave it out", code=2)
    if own is None:
        return alert
    if topic is not None and not own.is_of_topic:
        fail(f"--topic {topic!r}: {kind} is not about a topic; leave it out", code=2)
    return {**alert, **({} if own.is_of_cluster else {"cluster": OWN_CLUSTER}), "cause": own.cause}


def _missing_options(alert: Alert) -> list[str]:
    """Return the options that a more exact answer needs."""
    facts = KIND_FACTS.get(str(alert["kind"]))
    needed = {"--cluster": "cluster", **({"--group": "consumer_group"} if facts and facts.is_of_group else {})}
    return [option for option, label in needed.items() if label not in alert]


def _lines(answer: dict[str, Any]) -> list[tuple[str, str]]:
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
    if missing := " and ".join(answer["missing_options"]):
        what = "overrides, routes, labels, silences and mutes for certain ones may differ"
        lines.append(("general rule", f"for any {missing.replace('--', '')}; {what}: give {missing}"))
    if means := answer.get("means"):
        lines.append(("means", means))
    reaches = "\n".join(filter(None, (answer.get("reaches"), receivers)))
    return [
        *lines,
        ("fires", answer["fires"]),
        ("ends", answer["ends"]),
        ("severity", " or ".join(answer["severities"])),
        ("receivers", reaches or "none: no route matches"),
        ("labels", describe_labels(answer["static_labels"]) or "none"),
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


def setting(key: str, settings: Settings) -> Any:
    return reduce(getattr, key.split("."), settings)


def fill_in(text: str, settings: Settings) -> str:
    """Return the text with `{section.key}` as section.key (value), and `{name}` as that limit."""
    reported = KEY.sub(lambda found: f"{found[1]} ({_value_text(found[1], setting(found[1], settings))})", text)
    return re.sub(r"\{([a-z_]+)\}", lambda found: _value_text(found[1], getattr(LIMITS, found[1])), reported)


def _value_text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if key.endswith(("_ms", "_seconds")):
        return span_text(value if key.endswith("_ms") else round(value * 1000))
    return f"{value:g}"


def explain_alert(alert: Alert, world: World, incident: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the answer as JSON. `incident` is its newest row for a question about an incident."""
    kind, cause = str(alert["kind"]), alert.get("cause")
    facts = KIND_FACTS.get(kind)
    answer = _by_settings(kind, world.settings) if facts is None else _by_rules(alert, world, facts)
    severities = [alert["severity"]] if alert.get("severity") else answer["severities"]
    static = pick_static_labels(world.settings.label_rules, alert)
    own_labels = incident["labels"] if incident and facts is None else {}
    receivers, silences, mutes = [], [], []
    for severity in severities:
        labels = {**static, **alert, "severity": severity}
        routes = _pick(labels, own_labels, world)
        receivers += [{"severity": severity, "receiver": name, "route": route} for name, route in routes.items()]
        if kind == WATCHDOG:
            continue
        if silence := pick_silence(world.silences, labels, world.now_ms):
            shown = {name: getattr(silence, name) for name in ("silence_id", "created_by", "comment")}
            until, matchers = time_text(silence.ends_at_ms), describe_matchers(silence.matchers)
            silences.append({"severity": severity, **shown, "matchers": matchers, "until": until})
        mutes += [
            {"severity": severity, **describe_mute(mute, world.now_ms)}
            for mute in world.mutes
            if is_match(mute.matchers, labels)
        ]
    return {
        "subject": {**own_labels, **{name: value for name, value in alert.items() if value is not None}},
        "missing_options": _missing_options(alert),
        "incident": incident and {name: incident.get(name) for name in INCIDENT_COLUMNS},
        **answer,
        "runbook_url": runbook_url(world.settings.runbooks_url, kind, cause),
        "severities": severities,
        "static_labels": static,
        "receivers": receivers,
        "silences": silences,
        "mutes": mutes,
        "inhibited_by": _inhibited_by(alert, facts.inhibited_by if facts else (), world.incidents, incident),
    }


def _by_rules(alert: Alert, world: World, facts: KindFacts) -> dict[str, Any]:
    kind, cluster = str(alert["kind"]), alert.get("cluster") or ""
    group = alert.get("consumer_group") if facts.is_of_group else None
    rules = world.rulebook.of(cluster, group)
    of_kind = rules.of_kind(kind)
    return {
        "fires": _describe_firing(facts, kind, rules),
        "ends": (
            "The alert is RECOVERING when the condition no longer holds, and RESOLVED after "
            f"{span_text(of_kind.recovering_ms)} without it; an earlier return continues the same "
            f"incident. Only evaluations with a completeness of {rules.completeness_min:.0%} or more count. A flapping "
            f"alert stays open: from more than {rules.flap_high:.0%} changes in 21 slots of "
            f"{span_text(rules.flap_slot_ms)} until less than {rules.flap_low:.0%}."
        ),
        "severities": [of_kind.severity] if of_kind.severity else list(facts.severities),
        "keys": list(_keys(kind, facts.thresholds, rules, group, cluster, world)),
    }


def _describe_firing(facts: KindFacts, kind: str, rules: Rules) -> str:
    of_kind = rules.of_kind(kind)
    if not of_kind.is_enabled:
        return f"Never: kinds.{kind}.is_enabled is false, so it stays PENDING."
    condition = facts.holds_when
    for name in facts.thresholds:
        value = getattr(rules, name)
        condition = condition.replace(name, f"{name} ({span_text(value) if name.endswith('_ms') else value})")
    number = count(of_kind.pending_evaluations, "evaluation")
    held = f"for {span_text(of_kind.pending_ms)} and at least {number}" if of_kind.pending_ms else f"for {number}"
    return (
        f"The condition holds when {condition}. The alert is PENDING while it holds, and FIRING "
        f"after it held {held}. Each clock event is an evaluation; a gap of more than "
        f"{span_text(rules.max_evaluation_gap_ms)} between two does not count."
    )


def _keys(
    kind: str, thresholds: Sequence[str], rules: Rules, group: str | None, cluster: str, world: World
) -> Iterator[dict[str, Any]]:
    """Yield each key in force with its value and origin: an override by name, or the last source of the base.

    A key of the kind wins over the one for all kinds.
    """
    why, base = world.rulebook.why(cluster, group), world.rulebook.base

    def origin(key: str) -> str:
        return f"override {why[key].name!r}" if key in why else world.settings.origin_of(f"rules.{key}")

    for name in dict.fromkeys((*thresholds, "max_evaluation_gap_ms", "completeness_min")):
        yield {"key": f"rules.{name}", "value": getattr(rules, name), "set_by": origin(name)}
    for name, value in asdict(rules.of_kind(kind)).items():
        own, of_all = f"kinds.{kind}.{name}", f"kinds.{OF_ALL}.{name}"
        is_own = own in why or getattr(base.of_kind(kind), name) != getattr(base.of_kind(OF_ALL), name)
        set_by = origin(own) if is_own else f"{origin(of_all)}, for all kinds"
        yield {"key": f"rules.{own}", "value": value, "set_by": set_by}


def _by_settings(kind: str, settings: Settings) -> dict[str, Any]:
    """Return the answer for an alert about balancewatch itself, which settings decide."""
    facts = SELF_FACTS[kind]
    fires = facts.fires
    if facts.never is not None:
        key, value, why = facts.never
        if setting(key, settings) == value:
            fires = f"Never: {{{key}}}: {why}."
    return {
        "means": facts.means if facts.is_of_cluster else f"{facts.means} Its cluster label is {OWN_CLUSTER}.",
        "fires": fill_in(fires, settings),
        "ends": fill_in(facts.ends, settings),
        "reaches": facts.reaches,
        "severities": list(facts.severities),
        "keys": [
            {"key": key, "value": setting(key, settings), "set_by": settings.origin_of(key)} for key in facts.keys
        ],
    }


def _pick(labels: Alert, own_labels: Mapping[str, str], world: World) -> Mapping[str, str]:
    """Return the route of each receiver. Alerts of alerts_limited reach the receivers of the limited alerts."""
    if labels["kind"] == WATCHDOG:
        return pick_watchdog_receivers(world.routes)
    if labels["kind"] == DELIVERY_FAILED:
        return {name: DELIVERY_FAILED for name in world.receivers if name != own_labels.get("receiver")}
    return {} if labels["kind"] == ALERTS_LIMITED else pick_receivers(world.routes, labels, world.quiet)


def _inhibited_by(
    alert: Alert, kinds: Sequence[str], incidents: Iterable[Mapping[str, Any]], incident: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the inhibiting incident; for a question about a kind, the open incidents that would inhibit it."""
    known = {row["incident_id"]: row for row in incidents}
    cause_id = incident.get("inhibited_by") if incident else None
    cause = known.get(cause_id or "")
    may = [
        {name: row[name] for name in ("incident_id", "kind", "consumer_group", "broker_name", "summary")}
        for row in known.values()
        if incident is None
        and row["state"] in ("FIRING", "RECOVERING")
        and row["kind"] in kinds
        and row["cluster"] == alert.get("cluster")
        and row["consumer_group"] in (None, alert.get("consumer_group"))
    ]
    return {"kinds": list(kinds), "is": cause_id, "summary": cause["summary"] if cause else None, "may_be": may}
