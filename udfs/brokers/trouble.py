"""One trouble told from two sides: a broker that is gone.

A cluster's rounds, heartbeats and routes say it (`broker_no_data`, `broker_without_master`), and its producers' sends
that fail (`broker_isolated`, failing_broker). Whoever is told first keeps the page: the other waits under it, and the
one that pages takes the graver severity over. A slow broker is not gone: nobody else tells that producers avoid it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from udfs.alerts.alert import Incident

BROKER_NO_DATA, BROKER_WITHOUT_MASTER = "broker_no_data", "broker_without_master"
BROKER_ISOLATED, FAILING_BROKER = "broker_isolated", "failing_broker"
GONE = (BROKER_NO_DATA, BROKER_WITHOUT_MASTER)
"""Kinds that say so of a broker, the stronger first."""


@dataclass
class Gone:
    """The cluster's alert that a broker is gone, as its producers' fleet was last told of it.

    `over_ms` is the tick at which it was over; what producers hold against the broker from before then is its doing.
    """

    incident_id: str
    kind: str
    severity: str
    has_fired: bool
    inhibited_by: str | None
    over_ms: int | None = None

    @property
    def is_notified(self) -> bool:
        """It fires, for itself or under another alert, and is not over."""
        return self.has_fired and self.over_ms is None


def gone_brokers(incidents: Iterable[Incident]) -> dict[str, Gone]:
    """Broker to the strongest alert of a cluster that says it is gone, fired or about to."""
    found: dict[str, Gone] = {}
    for one in sorted((one for one in incidents if one.kind in GONE), key=lambda one: GONE.index(one.kind)):
        if one.broker_name:
            gone = Gone(one.incident_id, one.kind, one.severity, one.has_fired, one.inhibited_by)
            if one.broker_name not in found or not found[one.broker_name].has_fired:
                found[one.broker_name] = gone
    return found


def waits_under(own: Incident | None, other_id: str | None) -> str | None:
    """The other alert of the same trouble, unless this one was told before it."""
    is_first = own is not None and own.has_fired and own.inhibited_by is None
    return None if is_first else other_id
