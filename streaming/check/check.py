"""Explanation of an alert: when it fires and ends, its severity, receivers, silences and inhibitors."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

from conf.settings import Settings
from streaming.relay.silences import Mute
from streaming.text.times import span_text, time_text
from udfs.alerts.firing_limit import ALERTS_LIMITED
from udfs.alerts.kinds import KIND_FACTS, KindFacts
from udfs.alerts.pattern import describe_matchers, is_match
from udfs.alerts.prose import count
from udfs.alerts.routing import WATCHDOG, Route, pick_receivers, pick_watchdog_receivers
from udfs.alerts.rulebook import Rulebook
from udfs.alerts.rules import OF_ALL, Rules
from udfs.alerts.runbook import runbook_url
from udfs.alerts.self_kinds import DELIVERY_FAILED, KEY, LIMITS, OWN_CLUSTER, SELF_FACTS
from udfs.alerts.silence import Silence, pick_silence


def setting(key: str, settings: Settings) -> Any:
    return reduce(getattr, key.split("."), settings)


def fill_in(text: str, settings: Settings) -> str:
    """Return the text with `{section.key}` as section.key (value), and `{name}` as that limit."""
    reported = KEY.sub(lambda found: f"{found[1]} ({_describe(found[1], setting(found[1], settings))})", text)
    return re.sub(r"\{([a-z_]+)\}", lambda found: _describe(found[1], getattr(LIMITS, found[1])), reported)


def _describe(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if key.endswith(("_ms", "_seconds")):
        return span_text(value if key.endswith("_ms") else round(value * 1000))
    return f"{value:g}"


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


OPEN = ("FIRING", "RECOVERING")

INCIDENT_COLUMNS = (
    "incident_id", "state", "severity", "cause", "reason", "started_at", "fired_at", "changed_at", "summary"
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """The alert to explain, from the command line or from a row of the alerts table."""

    kind: str
    cluster: str
    consumer_group: str | None = None
    topic: str | None = None
    severity: str | None = None
    broker_name: str | None = None
    client_id: str | None = None
    cause: str | None = None

    def labels(self, severity: str) -> dict[str, str | None]:
        """Return the labels that routes and silences match."""
        return {**asdict(self), "severity": severity}


@dataclass(frozen=True)
class World:
    """The data of an answer. `receivers` are all their names, `incidents` the newest row of each incident."""

    settings: Settings
    rulebook: Rulebook
    routes: Sequence[Route]
    receivers: Sequence[str]
    quiet: Sequence[str]
    silences: Sequence[Silence]
    mutes: Sequence[Mute]
    incidents: Sequence[Mapping[str, Any]]
    now_ms: int


def check(subject: Subject, world: World, incident: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the answer as JSON. `incident` is its newest row for a question about an incident."""
    facts = KIND_FACTS.get(subject.kind)
    answer = _by_settings(subject, world) if facts is None else _by_rules(subject, world, facts)
    severities = [subject.severity] if subject.severity else answer["severities"]
    own_labels = incident["labels"] if incident and facts is None else {}
    reported = {name: value for name, value in asdict(subject).items() if value is not None}
    receivers, silences, mutes = [], [], []
    for severity in severities:
        labels = subject.labels(severity)
        routes = _pick(subject, labels, own_labels, world)
        receivers += [{"severity": severity, "receiver": name, "route": route} for name, route in routes.items()]
        if subject.kind == WATCHDOG:
            continue
        if silence := pick_silence(world.silences, labels, world.now_ms):
            silences.append(
                {
                    "severity": severity,
                    "silence_id": silence.silence_id,
                    "matchers": describe_matchers(silence.matchers),
                    "created_by": silence.created_by,
                    "comment": silence.comment,
                    "until": time_text(silence.ends_at_ms),
                }
            )
        mutes += [
            {"severity": severity, **describe_mute(mute, world.now_ms)}
            for mute in world.mutes
            if is_match(mute.matchers, labels)
        ]
    return {
        "subject": {**own_labels, **reported},
        "incident": incident and {name: incident.get(name) for name in INCIDENT_COLUMNS},
        **answer,
        "runbook_url": runbook_url(world.settings.runbooks_url, subject.kind, subject.cause),
        "severities": severities,
        "receivers": receivers,
        "silences": silences,
        "mutes": mutes,
        "inhibited_by": _inhibited_by(subject, facts.inhibited_by if facts else (), world.incidents, incident),
    }


def _by_rules(subject: Subject, world: World, facts: KindFacts) -> dict[str, Any]:
    group = subject.consumer_group if facts.is_of_group else None
    rules = world.rulebook.of(subject.cluster, group)
    severity = rules.of_kind(subject.kind).severity
    return {
        "fires": _describe_firing(facts, subject.kind, rules),
        "ends": (
            "The alert is RECOVERING when the condition no longer holds, and RESOLVED after "
            f"{span_text(rules.of_kind(subject.kind).recovering_ms)} without it; an earlier return continues the same "
            f"incident. Only evaluations with a completeness of {rules.completeness_min:.0%} or more count. A flapping "
            f"alert stays open: from more than {rules.flap_high:.0%} changes in 21 slots of "
            f"{span_text(rules.flap_slot_ms)} until less than {rules.flap_low:.0%}."
        ),
        "severities": [severity] if severity else list(facts.severities),
        "keys": list(_keys(subject.kind, facts.thresholds, rules, group, subject.cluster, world)),
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


def _by_settings(subject: Subject, world: World) -> dict[str, Any]:
    """Return the answer for an alert about balancewatch itself, which settings decide."""
    facts, settings = SELF_FACTS[subject.kind], world.settings
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


def _pick(
    subject: Subject, labels: Mapping[str, str | None], own_labels: Mapping[str, str], world: World
) -> Mapping[str, str]:
    """Return the receivers, with the route of each."""
    if subject.kind == WATCHDOG:
        return pick_watchdog_receivers(world.routes)
    if subject.kind == DELIVERY_FAILED:
        return {name: DELIVERY_FAILED for name in world.receivers if name != own_labels.get("receiver")}
    if subject.kind == ALERTS_LIMITED:
        return {}  # sent to the receivers of the limited alerts
    return pick_receivers(world.routes, labels, world.quiet)


def describe_mute(mute: Mute, now_ms: int) -> dict[str, Any]:
    """Return the mute with its open or next window."""
    window = mute.next_window(now_ms)
    return {
        "name": mute.name,
        "matchers": describe_matchers(mute.matchers),
        "windows": mute.describe(),
        "is_open": window.is_active(now_ms),
        "from": time_text(window.starts_at_ms),
        "until": time_text(window.ends_at_ms),
    }


def _inhibited_by(
    subject: Subject, kinds: Sequence[str], incidents: Iterable[Mapping[str, Any]], incident: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the inhibiting incident; for a question about a kind, the open incidents that would inhibit it."""
    known = {row["incident_id"]: row for row in incidents}
    cause_id = incident.get("inhibited_by") if incident else None
    cause = known.get(cause_id or "")
    may = [
        {name: row[name] for name in ("incident_id", "kind", "consumer_group", "broker_name", "summary")}
        for row in known.values()
        if incident is None
        and row["state"] in OPEN
        and row["kind"] in kinds
        and row["cluster"] == subject.cluster
        and row["consumer_group"] in (None, subject.consumer_group)
    ]
    return {"kinds": list(kinds), "is": cause_id, "summary": cause["summary"] if cause else None, "may_be": may}
