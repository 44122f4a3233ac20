"""The relay's Delta tables: what happened, what was delivered, what is silenced and acknowledged.

Appends are one commit each. The relay is the only writer of alert_deliveries; the commands write the other two.
A relay of its own does not load DuckDB, so the tables are read as Arrow, each kept open and read on by version.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction

from conf.location import Location
from schemas.tables import ACKNOWLEDGEMENTS, ALERT_DELIVERIES, ALERTS, SILENCES, Table
from streaming.oncall.completed import ALERT_COLUMNS, LOG_COLUMNS, at, split_completed
from streaming.oncall.delivery import Acknowledgement
from streaming.oncall.notification_policy import MOST_COMPLETED
from streaming.oncall.record import Record
from streaming.oncall.restore import LOG_COLUMNS as PAST_COLUMNS
from streaming.oncall.restore import Past, read_pasts
from streaming.oncall.silence_rows import UnreadableSilence, read_silences
from streaming.oncall.transition import Transition, need, read_transition
from streaming.text.times import to_ms
from streaming.warehouse.appender import Appender
from streaming.warehouse.opening import catch_up
from streaming.warehouse.readable_rows import (
    Row,
    each_of,
    open_written,
    read_files,
    read_rows,
    say_left_out,
    say_nameless,
)
from streaming.warehouse.rows import arrow_schema, arrow_table
from streaming.warehouse.tables import open_table, table_path
from streaming.warehouse.warehouse_error import NotWrittenError
from udfs.alerts.silence import Silence

APP_ID = "balancewatch-relay"
"""Its Delta transaction version in alert_deliveries says until when, in ms, all was history to the first relay."""


@dataclass(frozen=True)
class History:
    """What the tables say at the start: incidents with something left to do, and the names of those without.

    `version` is the alerts table's, as it was read. What was over by `until_ms` before it was told is told to nobody.
    """

    incident_states: dict[str, list[Transition]]
    pasts: dict[str, Past]
    completed: list[str]
    version: int
    until_ms: int


class DeliveryLog:
    """Opens, and where they are missing makes, the tables under a warehouse; unless it may not write."""

    def __init__(self, warehouse: Location, *, may_write: bool = True) -> None:
        self._may_write = may_write
        self._deliveries = _Log(warehouse, ALERT_DELIVERIES, may_write)
        self._alerts = _Log(warehouse, ALERTS, may_write)
        self._appends = 0

    def read_history(self, receivers: Collection[str], renewed_since_ms: int, now_ms: int) -> History:
        """All that a new relay must know. The very first one leaves alone what is over already.

        Rows become objects only of the incidents that are not completed, and of those no more names than a policy
        keeps.
        """
        version = self._alerts.version()
        self._deliveries.version()
        thin = self._alerts.read(ALERT_COLUMNS)
        log = self._deliveries.read(LOG_COLUMNS, pc.field("delivery_key").is_valid())
        say_nameless(ALERTS.name, thin)
        say_nameless(ALERT_DELIVERIES.name, log)
        until_ms = self._first_look(thin, now_ms)
        completed, left = split_completed(thin, log, receivers, renewed_since_ms, until_ms)
        del thin, log
        rows = self._deliveries.read(PAST_COLUMNS, pc.field("incident_id").isin(left)) if len(left) else None
        pasts = {} if rows is None else read_pasts(_notified_rows(rows), on_unreadable=self._leave_out)
        names = completed.slice(max(0, len(completed) - MOST_COMPLETED)).to_pylist()
        return History(self._read_incident_states(left), pasts, names, version, until_ms)

    def append(self, records: Sequence[Record]) -> None:
        """Write to the delivery log."""
        self._appends = max(self._appends, self._deliveries.written) + 1
        self._deliveries.append([record.row() for record in records], self._appends)

    def append_alerts(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write alerts of our own to the alerts table."""
        self._alerts.append(rows, self._alerts.written)

    def _read_incident_states(self, incident_ids: pa.Array) -> dict[str, list[Transition]]:
        incident_states: dict[str, list[Transition]] = {}
        if len(incident_ids):
            columns = list(ALERTS.names)
            wanted = pc.field("incident_id").isin(incident_ids)
            for transition in read_rows(ALERTS.name, self._alerts.read(columns, wanted), read_transition):
                incident_states.setdefault(transition.incident_id, []).append(transition)
        return incident_states

    def _leave_out(self, row: Row, error: Exception) -> None:
        say_left_out(ALERT_DELIVERIES.name, row, error)

    def _first_look(self, thin: pa.Table, now_ms: int) -> int:
        """Up to when history reaches: what an empty table is yet to be filled with may be a week old."""
        known = self._deliveries.transaction_version(APP_ID)
        if known is not None:
            return known
        so_far = thin.filter(pc.less_equal(thin["changed_at"], at(now_ms)))  # a time yet to come is a mistake
        newest = pc.max(so_far["changed_at"]).as_py()
        newest_ms = to_ms(newest) if newest is not None else now_ms
        if self._may_write:
            self._deliveries.append([], 0, Transaction(APP_ID, newest_ms))
        return newest_ms


class OperatorInput:
    """Silences and acknowledgements: appended by people, read again when their tables have changed."""

    def __init__(self, warehouse: Location, *, may_write: bool = True) -> None:
        self.unreadable: tuple[UnreadableSilence, ...] = ()
        self._silences = _Log(warehouse, SILENCES, may_write)
        self._acknowledgements = _Log(warehouse, ACKNOWLEDGEMENTS, may_write)

    def read_silences(self) -> list[Silence] | None:
        """The newest row of each; None when nothing has changed since the last time.

        One whose newest row cannot be read keeps nothing quiet, and is in `unreadable`.
        """
        if not self._silences.has_changed():
            return None
        rows = self._silences.read(list(SILENCES.names)).sort_by("changed_at")
        silences, self.unreadable = read_silences(each_of(rows))
        return silences

    def read_acknowledgements(self) -> list[Acknowledgement] | None:
        """All of them; None when nothing has changed since the last time."""
        if not self._acknowledgements.has_changed():
            return None
        columns = list(ACKNOWLEDGEMENTS.names)
        rows = self._acknowledgements.read(columns).sort_by("acknowledged_at")
        return read_rows(ACKNOWLEDGEMENTS.name, rows, _acknowledgement)

    def add_silence(self, silence: Silence, now_ms: int) -> None:
        """Also one that is known already: its newest row holds, and this is the newest, however the clock was set."""
        self._silences.version()
        known = self._silences.read(["silence_id", "changed_at"], pc.field("silence_id") == silence.silence_id)
        newest = pc.max(known["changed_at"]).as_py()
        row = {
            "silence_id": silence.silence_id,
            "matchers": json.dumps({label: list(globs) for label, globs in sorted(silence.matchers.items())}),
            "created_by": silence.created_by,
            "comment": silence.comment,
            "starts_at": silence.starts_at_ms,
            "ends_at": silence.ends_at_ms,
            "changed_at": now_ms if newest is None else max(now_ms, to_ms(newest) + 1),
        }
        self._silences.append([row], 0)

    def add_acknowledgement(self, word: Acknowledgement) -> None:
        row = {
            "incident_id": word.incident_id,
            "acknowledged_by": word.acknowledged_by,
            "note": word.note,
            "acknowledged_at": word.at_ms,
        }
        self._acknowledgements.append([row], 0)


class _Log:
    """One append-only table; without the right to write it may be missing, and then it is empty."""

    def __init__(self, warehouse: Location, contract: Table, may_write: bool) -> None:
        self._contract = contract
        self._read_version: int | None = None
        self._table: DeltaTable | None
        self._appender: Appender | None = None
        if may_write:
            self._table = open_table(warehouse, contract)
            self._appender = Appender(table_path(warehouse, contract.name), self._table)
        else:
            self._table = _if_written(warehouse, contract)

    def version(self) -> int:
        """The newest version, which later reads are of; -1 of a missing table."""
        if self._table is None:
            return -1
        catch_up(self._table)
        return int(self._table.version())

    def has_changed(self) -> bool:
        """Since this was asked last."""
        before, self._read_version = self._read_version, self.version()
        return before != self._read_version

    def read(self, columns: Sequence[str], wanted: pc.Expression | None = None) -> pa.Table:
        """Columns that an older release's table lacks are null."""
        if self._table is None:
            return arrow_schema(self._contract).empty_table().select(list(columns))
        return read_files(self._contract, self._table, columns, wanted)

    def append(self, rows: Sequence[dict[str, Any]], batch_id: int, transaction: Transaction | None = None) -> None:
        """One commit. Raises RuntimeError without the right to write."""
        if self._appender is None:
            raise RuntimeError(f"{self._contract.name} is read-only here")
        self._appender.append(arrow_table(rows, self._contract, batch_id), transaction)

    @property
    def written(self) -> int:
        """The newest version that our appends know of; -1 without the right to write."""
        return -1 if self._appender is None else self._appender.version

    def transaction_version(self, app_id: str) -> int | None:
        known = None if self._table is None else self._table.transaction_version(app_id)
        return None if known is None else int(known)


def _notified_rows(rows: pa.Table) -> list[Row]:
    """In the order in which they were written; those that an older release wrote have no key."""
    return list(each_of(rows.filter(pc.is_valid(rows["delivery_key"])).sort_by("batch_id")))


def _if_written(warehouse: Location, contract: Table) -> DeltaTable | None:
    try:
        return open_written(warehouse, contract)
    except NotWrittenError:
        return None


def _acknowledgement(row: Row) -> Acknowledgement:
    need(row, ("incident_id", "acknowledged_by", "note"))
    return Acknowledgement(row["incident_id"], row["acknowledged_by"], row["note"], to_ms(row["acknowledged_at"]))
