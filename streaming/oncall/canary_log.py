"""The canaries that arrived, from the delivery log."""

from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from conf.location import Location
from conf.oncall import CANARY
from schemas.tables import ALERT_DELIVERIES
from streaming.text.times import iso, to_ms
from streaming.warehouse.readable_rows import read_table

KIND = "duplicate_client_id"
"""What the modelled twins are."""


@dataclass(frozen=True)
class Arrival:
    """One canary. The alert's event time is that of its injection."""

    incident_id: str
    injected_at_ms: int
    delivered_at_ms: int

    @property
    def seconds(self) -> float:
        return round(max(0, self.delivered_at_ms - self.injected_at_ms) / 1000, 3)

    def row(self) -> dict[str, Any]:
        return {
            "injected_at": iso(self.injected_at_ms),
            "delivered_at": iso(self.delivered_at_ms),
            "seconds": self.seconds,
            "incident_id": self.incident_id,
        }


def read_canaries(warehouse: Location, last: int) -> list[Arrival]:
    """The `last` that arrived, oldest first. Raises NotWrittenError when there is no delivery log."""
    is_canary = (pc.field("route") == CANARY) | (pc.field("kind") == KIND)
    is_arrival = (pc.field("outcome") == "DELIVERED") & (pc.field("status") == "firing")
    mine = (pc.field("receiver") == CANARY) & is_canary & is_arrival
    rows = read_table(warehouse, ALERT_DELIVERIES, mine)
    return [Arrival(row["incident_id"], to_ms(row["changed_at"]), to_ms(row["delivered_at"])) for row in rows[-last:]]
