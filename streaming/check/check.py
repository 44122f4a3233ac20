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
    limits = {name: _describe(name, value) for name, value in asdict(LIMITS).items()}
    return re.sub(r"\{([a-z_]+)\}", lambda found: limits[found[1]], reported)


def _describe(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if key.endswith("_ms"):
        return span_text(value)
    return span_text(round(value * 1000)) if key.endswith("_seconds") else f"{value:g}"


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
    for key in FLOORS:
        yield from _warning("rules", key, getattr(rulebook.base, key))
    for override in rulebook.overrides:
        for key, value in override.changes():
            yield from _warning(f"override {override.name!r}", key, value)


def _warning(where: str, key: str, value: Any) -> Iterator[str]:
    floor_ms, reason = FLOORS.get(key, (0, ""))
    if floor_ms and value < floor_ms:
        meant = f'; the unit is ms, write "{value}s" for seconds' if value < 1_000 else ""
        yield f"{where}: {key} = {value} is below {span_text(floor_ms)}, but {reason}{meant}"


OPEN = ("FIRING", "RECOVERING")


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

    settings: "Settings"
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
    labels = incident["labels"] if incident and facts is None else {}
    reported = {name: value for name, value in asdict(subject).items() if value is not None}
    return {
        "subject": {**labels, **reported},
        "incident": _incident(incident),
        **answer,
        "runbook_url": runbook_url(world.settings.runbooks_url, subject.kind, subject.cause),
        "severities": severities,
        "receivers": _receivers(subject, severities, labels, world),
        "silences": [] if subject.kind == WATCHDOG else _silences(subject, severities, world),
        "mutes": [] if subject.kind == WATCHDOG else _mutes(subject, severities, world),
        "inhibited_by": _explained_by(subject, facts.inhibited_by if facts else (), world.incidents, incident),
    }


def _by_rules(subject: Subject, world: World, facts: KindFacts) -> dict[str, Any]:
    group = subject.consumer_group if facts.is_of_group else None
    rules = world.rulebook.of(subject.cluster, group)
    severity = rules.of_kind(subject.kind).severity
    return {
        "fires": _describe_firing(subject.kind, rules),
        "ends": _describe_end(subject.kind, rules),
        "severities": [severity] if severity else list(facts.severities),
        "keys": list(_keys(subject.kind, facts.thresholds, rules, group, subject.cluster, world)),
    }


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


def _receivers(
    subject: Subject, severities: Iterable[str], labels: Mapping[str, str], world: World
) -> list[dict[str, Any]]:
    """Return the receivers, with the route of each."""
    return [
        {"severity": severity, "receiver": receiver, "route": route}
        for severity in severities
        for receiver, route in _pick(subject, severity, labels, world).items()
    ]


def _pick(subject: Subject, severity: str, labels: Mapping[str, str], world: World) -> Mapping[str, str]:
    if subject.kind == WATCHDOG:
        return pick_watchdog_receivers(world.routes)
    if subject.kind == DELIVERY_FAILED:
        return {name: DELIVERY_FAILED for name in world.receivers if name != labels.get("receiver")}
    if subject.kind == ALERTS_LIMITED:
        return {}  # sent to the receivers of the limited alerts
    return pick_receivers(world.routes, subject.labels(severity), world.quiet)


def _silences(subject: Subject, severities: Iterable[str], world: World) -> list[dict[str, Any]]:
    """Return the active silences, by severity."""
    return [
        {"severity": severity, **_silence(silence)}
        for severity in severities
        if (silence := pick_silence(world.silences, subject.labels(severity), world.now_ms))
    ]


def _mutes(subject: Subject, severities: Iterable[str], world: World) -> list[dict[str, Any]]:
    """Return the mutes that match the alert, open now or not, by severity."""
    return [
        {"severity": severity, **describe_mute(mute, world.now_ms)}
        for severity in severities
        for mute in world.mutes
        if is_match(mute.matchers, subject.labels(severity))
    ]


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


def _describe_firing(kind: str, rules: Rules) -> str:
    of_kind = rules.of_kind(kind)
    if not of_kind.is_enabled:
        return f"Never: kinds.{kind}.is_enabled is false, so it stays PENDING."
    number = count(of_kind.pending_evaluations, "evaluation")
    held = f"for {span_text(of_kind.pending_ms)} and at least {number}" if of_kind.pending_ms else f"for {number}"
    return (
        f"The condition holds when {_describe_condition(kind, rules)}. The alert is PENDING while it holds, and FIRING "
        f"after it held {held}. Each clock event is an evaluation; a gap of more than "
        f"{span_text(rules.max_evaluation_gap_ms)} between two does not count."
    )


def _describe_condition(kind: str, rules: Rules) -> str:
    """Return the condition with the value after each threshold's name."""
    facts = KIND_FACTS[kind]
    text = facts.holds_when
    for name in facts.thresholds:
        value = getattr(rules, name)
        text = text.replace(name, f"{name} ({span_text(value) if name.endswith('_ms') else value})")
    return text


def _describe_end(kind: str, rules: Rules) -> str:
    of_kind = rules.of_kind(kind)
    return (
        "The alert is RECOVERING when the condition no longer holds, and RESOLVED after "
        f"{span_text(of_kind.recovering_ms)} without it; an earlier return continues the same incident. "
        f"Only evaluations with a completeness of {rules.completeness_min:.0%} or more count. A flapping alert stays "
        f"open: from more than {rules.flap_high:.0%} changes in 21 slots of {span_text(rules.flap_slot_ms)} until less "
        f"than {rules.flap_low:.0%}."
    )


def _incident(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    names = ("incident_id", "state", "severity", "cause", "reason", "started_at", "fired_at", "changed_at", "summary")
    return {name: row.get(name) for name in names}


def _silence(silence: Silence) -> dict[str, Any]:
    return {
        "silence_id": silence.silence_id,
        "matchers": describe_matchers(silence.matchers),
        "created_by": silence.created_by,
        "comment": silence.comment,
        "until": time_text(silence.ends_at_ms),
    }


def _explained_by(
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


def _keys(
    kind: str, thresholds: Sequence[str], rules: Rules, group: str | None, cluster: str, world: World
) -> Iterable[dict[str, Any]]:
    """Yield each key in force with its value and origin: an override by name, or the last source of the base."""
    why = world.rulebook.why(cluster, group)
    for name in (
        *thresholds,
        "max_evaluation_gap_ms",
        *(() if "completeness_min" in thresholds else ("completeness_min",)),
    ):
        set_by = f"override {why[name].name!r}" if name in why else world.settings.origin_of(f"rules.{name}")
        yield {"key": f"rules.{name}", "value": getattr(rules, name), "set_by": set_by}
    of_kind = asdict(rules.of_kind(kind))
    for name, value in of_kind.items():
        yield {"key": f"rules.kinds.{kind}.{name}", "value": value, "set_by": _who(kind, name, why, world)}


def _who(kind: str, name: str, why: Mapping[str, Any], world: World) -> str:
    """Return the origin of a kind's key; a key of the kind wins over the one for all kinds."""
    own, of_all = f"kinds.{kind}.{name}", f"kinds.{OF_ALL}.{name}"
    if own in why:
        return f"override {why[own].name!r}"
    base = world.rulebook.base
    if getattr(base.of_kind(kind), name) != getattr(base.of_kind(OF_ALL), name):
        return world.settings.origin_of(f"rules.{own}")
    if of_all in why:
        return f"override {why[of_all].name!r}, for all kinds"
    return f"{world.settings.origin_of(f'rules.{of_all}')}, for all kinds"
