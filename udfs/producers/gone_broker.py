"""What producers tell of a broker that the cluster says is gone: one trouble, told once, and open while it is gone."""

from collections.abc import Iterator, Mapping

from udfs.alerts.alert import Finding, Incident
from udfs.alerts.life import FIRING
from udfs.brokers.trouble import BROKER_ISOLATED, FAILING_BROKER, Gone, waits_under
from udfs.producers.fleet import Fleet
from udfs.producers.item import Item


def held_open(fleet: Fleet, findings: Mapping[str, Finding]) -> Iterator[tuple[str, Finding]]:
    """Brokers that are gone, as told by their producers when they still sent there."""
    for broker_name, gone in sorted(fleet.gone.items()):
        key = f"{BROKER_ISOLATED} {broker_name}"
        known, now = fleet.fired(key), findings.get(key)
        if gone.over_ms is None and known and known.cause == FAILING_BROKER and (now is None or not now.is_ready):
            yield key, _as_notified(known, severity_of(known, gone))


def _as_notified(known: Incident, severity: str) -> Finding:
    """It says what it said, and goes on; where it has been calm, that it does not end."""
    return Finding(
        known.kind,
        known.cause,
        severity,
        known.started_at_ms,
        known.text,
        known.labels,
        broker_name=known.broker_name,
        evidence=known.evidence,
        inhibited_by=known.inhibited_by,
        is_ready=known.state == FIRING,
        figures=known.figures,
    )


def severity_of(known: Incident | None, gone: Gone | None) -> str:
    """Of sends that fail; where the broker is gone that of the other alert, if it is graver, to the end."""
    is_critical = (gone is not None and gone.is_notified and gone.severity == "critical") or (
        known is not None and known.cause == FAILING_BROKER and known.severity == "critical"
    )
    return "critical" if is_critical else "error"


def notified_before(fleet: Fleet, broker_name: str, avoiders: Mapping[str, Item]) -> str | None:
    """The cluster's alert that the broker is gone, if it was told first; past its end, for what is left of then."""
    gone, own = fleet.gone.get(broker_name), fleet.incidents.get(f"{BROKER_ISOLATED} {broker_name}")
    if gone is None or not gone.has_fired or (own is not None and gone.inhibited_by == own.incident_id):
        return None
    if gone.over_ms is not None and max(item.slow_ms for item in avoiders.values()) > gone.over_ms:
        return None
    return waits_under(own, gone.incident_id)


def failing_brokers(fleet: Fleet) -> dict[str, str]:
    """Broker to the open alert that sends to it fail, unless that waits under the cluster's own."""
    return {
        one.broker_name: one.incident_id
        for one in fleet.incidents.values()
        if one.kind == BROKER_ISOLATED and one.cause == FAILING_BROKER and one.has_fired and one.broker_name
        if one.broker_name not in fleet.gone or one.inhibited_by != fleet.gone[one.broker_name].incident_id
    }
