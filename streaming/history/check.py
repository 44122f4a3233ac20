"""What an alert would do, and why: when it fires and is over, how loud it is, whom it reaches, what keeps it quiet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from streaming.history.moments import tell, tell_span
from streaming.history.origins import Origins
from udfs.kinds import KIND_FACTS
from udfs.pattern import describe_matchers
from udfs.routing import Route, pick_receivers
from udfs.rulebook import Rulebook
from udfs.rules import OF_ALL, Rules
from udfs.silence import Silence, pick_silence

if TYPE_CHECKING:
    from conf.settings import Settings

OPEN = ("FIRING", "RECOVERING")


@dataclass(frozen=True)
class Subject:
    """The alert asked about. A row of the alerts table has more than a question that a person types."""

    kind: str
    cluster: str
    consumer_group: str | None = None
    topic: str | None = None
    severity: str | None = None
    broker_name: str | None = None
    client_id: str | None = None
    cause: str | None = None

    def labels(self, severity: str) -> dict[str, str | None]:
        """What routes and silences look at."""
        return {**asdict(self), "severity": severity}


@dataclass(frozen=True)
class World:
    """What the answer rests on. `receivers` are all their names, `incidents` the newest row of each incident."""

    settings: "Settings"
    rulebook: Rulebook
    origins: Origins
    routes: Sequence[Route]
    receivers: Sequence[str]
    quiet: Sequence[str]
    silences: Sequence[Silence]
    incidents: Sequence[Mapping[str, Any]]
    now_ms: int


def check(subject: Subject, world: World, incident: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """JSON of the answer. `incident` is its newest row, where it is one that there is."""
    facts = KIND_FACTS[subject.kind]
    group = subject.consumer_group if facts.is_of_group else None
    rules = world.rulebook.of(subject.cluster, group)
    of_kind = rules.of_kind(subject.kind)
    severities = _severities(subject, of_kind.severity, facts.severities)
    return {
        **about(subject, incident),
        "fires": _tell_firing(subject.kind, rules),
        "ends": _tell_end(subject.kind, rules),
        "severities": severities,
        "receivers": tell_receivers(subject, severities, world),
        "silences": tell_silences(subject, severities, world),
        "explained_by": _explained_by(subject, facts.explained_by, world.incidents, incident),
        "keys": list(_keys(subject.kind, facts.thresholds, rules, group, subject.cluster, world)),
    }


def about(subject: Subject, incident: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of what the answer is."""
    return {
        "subject": {name: value for name, value in asdict(subject).items() if value is not None},
        "incident": _incident(incident),
    }


def tell_receivers(subject: Subject, severities: Iterable[str], world: World) -> list[dict[str, Any]]:
    """Whom the routes name, by severity."""
    return [
        {"severity": severity, "receiver": receiver, "route": route}
        for severity in severities
        for receiver, route in pick_receivers(world.routes, subject.labels(severity), world.quiet).items()
    ]


def tell_silences(subject: Subject, severities: Iterable[str], world: World) -> list[dict[str, Any]]:
    """What keeps it quiet now, by severity."""
    return [
        {"severity": severity, **_silence(silence)}
        for severity in severities
        if (silence := pick_silence(world.silences, subject.labels(severity), world.now_ms))
    ]


def _severities(subject: Subject, by_rules: str | None, by_kind: Sequence[str]) -> list[str]:
    if subject.severity:
        return [subject.severity]
    return [by_rules] if by_rules else list(by_kind)


def _tell_firing(kind: str, rules: Rules) -> str:
    of_kind = rules.of_kind(kind)
    if not of_kind.is_enabled:
        return f"Never: kinds.{kind}.is_enabled is false, so it is never more than PENDING."
    looks = "one look" if of_kind.pending_looks == 1 else f"{of_kind.pending_looks} looks"
    held = f"for {tell_span(of_kind.pending_ms)}, at {looks} at least" if of_kind.pending_ms else f"at {looks}"
    return (
        f"It is seen to hold when {_tell_condition(kind, rules)}. Then it is PENDING, and fires once it was seen to "
        f"hold {held}; looks are clock events, and a gap of more than {tell_span(rules.blind_ms)} between two counts "
        "for nothing."
    )


def _tell_condition(kind: str, rules: Rules) -> str:
    """With the value behind each threshold's name."""
    facts = KIND_FACTS[kind]
    text = facts.holds_when
    for name in facts.thresholds:
        value = getattr(rules, name)
        text = text.replace(name, f"{name} ({tell_span(value) if name.endswith('_ms') else value})")
    return text


def _tell_end(kind: str, rules: Rules) -> str:
    of_kind = rules.of_kind(kind)
    return (
        f"It is RECOVERING when it no longer holds, and RESOLVED once it stayed away for "
        f"{tell_span(of_kind.recovering_ms)}; back within that, it is the same incident. Only looks count at which "
        f"{rules.completeness_min:.0%} of what it is about was heard. One that comes and goes is held open: from more "
        f"than {rules.flap_high:.0%} of changes in 21 slots of {tell_span(rules.flap_slot_ms)} until less than "
        f"{rules.flap_low:.0%}."
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
        "owner": silence.owner,
        "reason": silence.reason,
        "until": tell(silence.ends_at_ms),
    }


def _explained_by(
    subject: Subject, kinds: Sequence[str], incidents: Iterable[Mapping[str, Any]], incident: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What suppresses it; for a question without an incident, what is open and may."""
    known = {row["incident_id"]: row for row in incidents}
    cause_id = incident.get("suppressed_by") if incident else None
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
    """Each key in force, with its value and who set it: an override by its name, or the last source of the base."""
    why = world.rulebook.why(cluster, group)
    for name in (*thresholds, "blind_ms", *(() if "completeness_min" in thresholds else ("completeness_min",))):
        set_by = f"override {why[name].name!r}" if name in why else world.origins.of_rule(name)
        yield {"key": f"rules.{name}", "value": getattr(rules, name), "set_by": set_by}
    of_kind = asdict(rules.of_kind(kind))
    for name, value in of_kind.items():
        yield {"key": f"rules.kinds.{kind}.{name}", "value": value, "set_by": _who(kind, name, why, world)}


def _who(kind: str, name: str, why: Mapping[str, Any], world: World) -> str:
    """A kind's own key, of an override or the base, wins over the one for all kinds."""
    own, of_all = f"kinds.{kind}.{name}", f"kinds.{OF_ALL}.{name}"
    if own in why:
        return f"override {why[own].name!r}"
    base = world.rulebook.base
    if getattr(base.of_kind(kind), name) != getattr(base.of_kind(OF_ALL), name):
        return world.origins.of_rule(own)
    if of_all in why:
        return f"override {why[of_all].name!r}, for all kinds"
    return f"{world.origins.of_rule(of_all)}, for all kinds"
