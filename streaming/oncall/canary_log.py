"""The canaries that arrived, from the delivery log."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc
from deltalake.exceptions import TableNotFoundError

from conf.location import Location
from schemas.tables import ALERT_DELIVERIES
from streaming.history.alerts import WarehouseError, iso
from streaming.oncall.own_alerts import CANARY
from streaming.queries.warehouse import table_path
from streaming.readable_rows import read_rows, whole
from streaming.warehouse.opening import open_delta

COLUMNS = ["receiver", "outcome", "status", "changed_at", "delivered_at", "incident_id", "route", "kind"]

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
            "injected_at": iso(datetime.fromtimestamp(self.injected_at_ms / 1000, UTC)),
            "delivered_at": iso(datetime.fromtimestamp(self.delivered_at_ms / 1000, UTC)),
            "seconds": self.seconds,
            "incident_id": self.incident_id,
        }


def read_canaries(warehouse: Location, last: int) -> list[Arrival]:
    """The `last` that arrived, oldest first. Raises WarehouseError when there is no delivery log."""
    try:
        table = open_delta(table_path(warehouse, ALERT_DELIVERIES.name))
    except TableNotFoundError:
        raise WarehouseError(
            f"paths.warehouse = {str(warehouse)!r}: no alert_deliveries table there; has `run` written it?"
        ) from None
    is_canary = (pc.field("route") == CANARY) | (pc.field("kind") == KIND)
    is_arrival = (pc.field("outcome") == "DELIVERED") & (pc.field("status") == "firing")
    mine = (pc.field("receiver") == CANARY) & is_canary & is_arrival
    rows = read_rows(
        ALERT_DELIVERIES.name, table.to_pyarrow_table(columns=COLUMNS, filters=mine), whole(ALERT_DELIVERIES)
    )
    arrivals = [Arrival(row["incident_id"], _ms(row["changed_at"]), _ms(row["delivered_at"])) for row in rows]
    return sorted(arrivals, key=lambda one: one.delivered_at_ms)[-last:]


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
