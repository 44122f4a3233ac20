"""Metrics of the relay: calls, decisions, pending notifications, and the canary's latency."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from conf.location import Location
from conf.oncall import CANARY
from streaming.metrics.exporter import Exporter
from streaming.metrics.names import (
    ATTEMPT_SECONDS,
    CANARY_AGE,
    CANARY_SECONDS,
    DELIVERY_ATTEMPTS,
    DELIVERY_DECISIONS,
    DELIVERY_SECONDS,
    DUE_NOTICES,
    RELAY_RESTARTS,
)
from streaming.relay.canary import read_canaries
from streaming.relay.notice import EVERYBODY, Record
from streaming.relay.relay import RelayListener, Reply
from streaming.warehouse.warehouse_error import WarehouseError


class Deliveries(RelayListener):
    """The listener of the metrics. The canary has separate metrics."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._canary_at = time.time()
        self._due: set[str] = set()

    def load(self, warehouse: Location) -> None:
        """Load the time of the newest canary; without one, the age counts from now."""
        try:
            known = read_canaries(warehouse, 1)
        except WarehouseError:
            known = []
        self._canary_at = known[-1].delivered_at_ms / 1000 if known else time.time()
        self._exporter.series(CANARY_AGE).set_function(lambda: time.time() - self._canary_at)

    def answered(self, reply: Reply) -> None:
        if reply.receiver != CANARY:
            self._exporter.series(DELIVERY_ATTEMPTS, receiver=reply.receiver, outcome=reply.answer.verdict).inc()
            self._exporter.series(ATTEMPT_SECONDS, receiver=reply.receiver).observe(reply.latency_ms / 1000)

    def decided(self, records: Sequence[Record], self_alerts: Sequence[Mapping[str, Any]]) -> None:
        for record in records:
            seconds = max(0, record.at_ms - record.changed_at_ms) / 1000
            is_delivered = record.outcome == "DELIVERED"
            if record.receiver == CANARY:
                if is_delivered and record.status == "firing":
                    self._canary_at = record.at_ms / 1000
                    self._exporter.series(CANARY_SECONDS).observe(seconds)
                continue
            self._exporter.series(DELIVERY_DECISIONS, outcome=record.outcome).inc()
            if is_delivered and record.receiver != EVERYBODY:
                self._exporter.series(DELIVERY_SECONDS, receiver=record.receiver).observe(seconds)

    def owes(self, due: Mapping[str, int]) -> None:
        for receiver in self._due - due.keys():
            self._exporter.drop(DUE_NOTICES, receiver=receiver)
        self._due = set(due) - {CANARY}
        for receiver in self._due:
            self._exporter.series(DUE_NOTICES, receiver=receiver).set(due[receiver])

    def restarted(self) -> None:
        self._exporter.series(RELAY_RESTARTS).inc()
