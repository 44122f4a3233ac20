"""The relay's Delta tables: alerts, alert_deliveries, silences, acknowledgements.

The tables are read as Arrow, without DuckDB or a JVM; each stays open and is read on by version. An append is one
commit. The relay alone writes alert_deliveries; the commands write silences and acknowledgements.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from obstore.exceptions import BaseError
from pyarrow.dataset import FileSystemDataset

from conf.location import Location
from schemas.tables import ACKNOWLEDGEMENTS, ALERT_DELIVERIES, ALERTS, SILENCES, Table
from streaming.relay.notice import Transition, need, read_transition
from streaming.relay.outbox import EVERYBODY, Acknowledgement, Record
from streaming.relay.owed import MOST_COMPLETED, Line, Past, WithheldReason
from streaming.relay.silences import UnreadableSilence, read_silences
from streaming.system.known_error import BalancewatchError
from streaming.text.times import to_ms, to_time
from streaming.warehouse.appender import Appender
from streaming.warehouse.delta_log import access_error, read_commit
from streaming.warehouse.readable_rows import (
    UNREADABLE,
    Row,
    each_of,
    open_written,
    read_files,
    read_rows,
    say_left_out,
    say_nameless,
)
from streaming.warehouse.rows import arrow_schema, arrow_table
from streaming.warehouse.tables import catch_up, open_delta, open_table, table_path
from streaming.warehouse.warehouse_error import NotWrittenError, TableAccessError
from udfs.alerts.silence import Silence

APP_ID = "balancewatch-relay"
"""Its Delta transaction version in alert_deliveries: what was over by that time, ms, precedes the first relay."""

ALERT_COLUMNS = ("incident_id", "state", "changed_at")
LOG_COLUMNS = ("incident_id", "receiver", "delivery_key", "status", "outcome", "delivered_at")
PAST_COLUMNS = (*LOG_COLUMNS, "reason", "route", "attempt", "batch_id")

TABLE_ERRORS = (DeltaError, BaseError, OSError, pa.ArrowException, BalancewatchError)
"""What an access to a table raises if the table is damaged, away, or full."""


class AlertLogError(BalancewatchError):
    """New rows of the alerts table are no longer in its log; `maintain.reader_hours` says how long they stay."""


@dataclass(frozen=True)
class History:
    """What the tables say at a start: incidents with something left to do, and the names of those without.

    `version` is that of the alerts table. What was over by `until_ms` without a notification is never notified.
    """

    rows: dict[str, list[Transition]]
    pasts: dict[str, Past]
    completed: list[str]
    version: int
    until_ms: int


class DeliveryLog:
    """The alerts and their deliveries. Missing tables are created, unless `may_write` is false."""

    def __init__(self, warehouse: Location, *, may_write: bool = True) -> None:
        """Raises TableAccessError."""
        self._may_write = may_write
        self._deliveries = _Log(warehouse, ALERT_DELIVERIES, may_write).opened()
        self._alerts = _Log(warehouse, ALERTS, may_write).opened()
        self._appends = 0

    def read_history(self, receivers: Collection[str], renewed_since_ms: int, now_ms: int) -> History:
        """Read all that a new relay must know. Only incidents that are not completed become objects."""
        version = self._alerts.version()
        self._deliveries.version()
        alerts = self._alerts.read(ALERT_COLUMNS)
        log = self._deliveries.read(LOG_COLUMNS, pc.field("delivery_key").is_valid())
        say_nameless(ALERTS.name, alerts)
        say_nameless(ALERT_DELIVERIES.name, log)
        until_ms = self._history_until(alerts, now_ms)
        completed, left = split_completed(alerts, log, receivers, renewed_since_ms, until_ms)
        del alerts, log
        rows: dict[str, list[Transition]] = {}
        pasts: dict[str, Past] = {}
        if len(left):
            wanted = pc.field("incident_id").isin(left)
            for transition in read_rows(ALERTS.name, self._alerts.read(ALERTS.names, wanted), read_transition):
                rows.setdefault(transition.incident_id, []).append(transition)
            found = self._deliveries.read(PAST_COLUMNS, wanted)
            pasts = read_pasts(each_of(found.filter(pc.is_valid(found["delivery_key"])).sort_by("batch_id")))
        names = completed.slice(max(0, len(completed) - MOST_COMPLETED)).to_pylist()
        return History(rows, pasts, names, version, until_ms)

    def append(self, records: Sequence[Record]) -> None:
        """Write to the delivery log."""
        self._appends = max(self._appends, self._deliveries.written) + 1
        self._deliveries.append([record.row() for record in records], self._appends)

    def append_alerts(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write alerts about the relay to the alerts table."""
        self._alerts.append(rows, self._alerts.written)

    def _history_until(self, alerts: pa.Table, now_ms: int) -> int:
        """Return the time of the newest row that the very first relay found."""
        known = self._deliveries.transaction_version(APP_ID)
        if known is not None:
            return known
        so_far = alerts.filter(pc.less_equal(alerts["changed_at"], at(now_ms)))  # a time in the future is a mistake
        newest = pc.max(so_far["changed_at"]).as_py()
        newest_ms = to_ms(newest) if newest is not None else now_ms
        if self._may_write:
            self._deliveries.append([], 0, Transaction(APP_ID, newest_ms))
        return newest_ms


def read_pasts(rows: Iterable[Row]) -> dict[str, Past]:
    """Return what alert_deliveries says by incident; `rows` are in the order in which they were written."""
    pasts: dict[str, Past] = {}
    for row in rows:
        try:
            need(row, ("incident_id", "delivery_key", "receiver", "status", "outcome"))
            key, receiver, outcome = row["delivery_key"], row["receiver"], row["outcome"]
            at_ms = to_ms(row["delivered_at"])
        except UNREADABLE as error:
            say_left_out(ALERT_DELIVERIES.name, row, error)
            continue
        past = pasts.setdefault(row["incident_id"], Past())
        if receiver == EVERYBODY and outcome != "PENDING":
            past.withheld = WithheldReason(outcome, row["reason"] or "", at_ms)
            continue
        line = past.lines.setdefault(key, {}).setdefault(receiver, Line())
        if outcome == "PENDING":
            line.route, line.due_at_ms = row["route"] or "", at_ms
        elif outcome == "RETRYING":
            line.attempts = max(row["attempt"] or 0, line.attempts)
        elif outcome in ("DELIVERED", "REFUSED"):
            line.outcome, line.answered_at_ms = outcome, max(at_ms, line.answered_at_ms)  # a clock may be set back
    return pasts


def split_completed(
    alerts: pa.Table, log: pa.Table, receivers: Collection[str], renewed_since_ms: int, history_until_ms: int
) -> tuple[pa.Array, pa.Array]:
    """Return the incidents that need nothing more, by the time of their end, and all others.

    An incident that is over is completed if its end is answered by all of these receivers, before `renewed_since_ms`;
    or without notifications if it was withheld until its end, never fired, or ended before the first relay.
    """
    is_due = pc.equal(log["outcome"], "PENDING")
    is_answer = pc.is_in(log["outcome"], pa.array(["DELIVERED", "REFUSED"]))
    pairs = pc.binary_join_element_wise(log["delivery_key"], log["receiver"], "\n")
    is_answered = pc.is_in(pairs, pairs.filter(is_answer))
    is_configured = pc.is_in(log["receiver"], pa.array(list(receivers), pa.string()))
    is_withheld = pc.and_(pc.equal(log["receiver"], EVERYBODY), pc.invert(is_due))
    deliveries = {
        "is_due": is_due,
        "is_end_due": pc.and_(is_due, pc.match_substring(log["delivery_key"], ":resolved:")),
        "is_owed": pc.and_(pc.and_(is_due, is_configured), pc.invert(is_answered)),
        "is_closed": pc.and_(is_withheld, pc.equal(log["status"], "resolved")),
        "answered_at": _where(is_answer, log["delivered_at"]),
    }
    incidents = {
        "end_at": _where(pc.equal(alerts["state"], "RESOLVED"), alerts["changed_at"]),
        "has_fired": pc.equal(alerts["state"], "FIRING"),
    }
    known = _by_incident(alerts, incidents).join(_by_incident(log, deliveries), "incident_id")

    def holds(column: str) -> pa.ChunkedArray:
        return pc.fill_null(known[column], fill_value=False)

    is_history = pc.fill_null(pc.less_equal(known["end_at"], at(history_until_ms)), fill_value=False)
    is_renewed = pc.fill_null(pc.greater_equal(known["answered_at"], at(renewed_since_ms)), fill_value=False)
    not_due = pc.or_(pc.or_(holds("is_closed"), is_history), pc.invert(holds("has_fired")))
    answered = pc.and_(pc.and_(holds("is_end_due"), pc.invert(holds("is_owed"))), pc.invert(is_renewed))
    is_completed = pc.and_(pc.is_valid(known["end_at"]), pc.if_else(holds("is_due"), answered, not_due))
    completed, left = known.filter(is_completed).sort_by("end_at"), known.filter(pc.invert(is_completed))
    return completed["incident_id"].combine_chunks(), left["incident_id"].combine_chunks()


def _where(mask: pa.ChunkedArray, times: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(mask, times, pa.scalar(None, times.type))


def _by_incident(table: pa.Table, columns: dict[str, pa.ChunkedArray]) -> pa.Table:
    """Return one row per incident: the newest of times, whether any row holds of the others."""
    rows = pa.table({"incident_id": table["incident_id"], **columns})
    how = {name: "max" if pa.types.is_timestamp(column.type) else "any" for name, column in columns.items()}
    grouped = rows.group_by("incident_id").aggregate(list(how.items()))
    return grouped.select(["incident_id", *(f"{name}_{way}" for name, way in how.items())]).rename_columns(
        ["incident_id", *how]
    )


def at(at_ms: int) -> pa.Scalar:
    return pa.scalar(to_time(at_ms), pa.timestamp("us", "UTC"))


class OperatorInput:
    """Silences and acknowledgements: appended by the commands, read again when their tables change."""

    def __init__(self, warehouse: Location, *, may_write: bool = True) -> None:
        self.unreadable: tuple[UnreadableSilence, ...] = ()
        self._silences = _Log(warehouse, SILENCES, may_write)
        self._acknowledgements = _Log(warehouse, ACKNOWLEDGEMENTS, may_write)

    def read_silences(self) -> list[Silence] | None:
        """Return the newest row of each silence; None if nothing has changed since the last call.

        Unreadable rows silence nothing and are in `unreadable`. Raises TableAccessError.
        """
        rows = self._silences.read_changed("changed_at")
        if rows is None:
            return None
        silences, self.unreadable = read_silences(each_of(rows))
        return silences

    def read_acknowledgements(self) -> list[Acknowledgement] | None:
        """Return all of them; None if nothing has changed since the last call. Raises TableAccessError."""

        def read(row: Row) -> Acknowledgement:
            need(row, ("incident_id", "acknowledged_by", "note"))
            return Acknowledgement(
                row["incident_id"], row["acknowledged_by"], row["note"], to_ms(row["acknowledged_at"])
            )

        rows = self._acknowledgements.read_changed("acknowledged_at")
        return None if rows is None else read_rows(ACKNOWLEDGEMENTS.name, rows, read)

    def add_silence(self, silence: Silence, now_ms: int) -> None:
        """Append a silence, or the newest row of a known one, later than the others however the clock was set."""
        log = self._silences.opened()
        log.version()
        known = log.read(["silence_id", "changed_at"], pc.field("silence_id") == silence.silence_id)
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
        log.append([row], 0)

    def add_acknowledgement(self, given: Acknowledgement) -> None:
        row = {
            "incident_id": given.incident_id,
            "acknowledged_by": given.acknowledged_by,
            "note": given.note,
            "acknowledged_at": given.at_ms,
        }
        self._acknowledgements.opened().append([row], 0)


class AlertRows:
    """A cursor in the log of the alerts table: the rows appended after `version`, each once.

    Rows that maintenance rewrites, compacting the table or dropping old rows, are not new.
    """

    def __init__(self, warehouse: Location, version: int) -> None:
        self._path = table_path(warehouse, ALERTS.name)
        self._table = open_delta(self._path)
        self.version = version

    def take(self, rows: Sequence[Mapping[str, Any]], batch_id: int, version: int | None) -> list[Transition] | None:
        """Return the rows of a batch without reading the table, if they are its next version.

        Else the log says what is new: None if that is to be read, no rows if they are known.
        """
        if version == self.version + 1:
            self.version = version
            stored = arrow_table([dict(row) for row in rows], ALERTS, batch_id)  # as the table has them
            return read_rows(ALERTS.name, stored, read_transition)
        return None if version is None or version > self.version else []

    def read(self) -> list[Transition]:
        """Return the rows of new files. Raises AlertLogError if the log or a file is gone."""
        catch_up(self._table)
        newest = int(self._table.version())
        new: list[str] = []
        for version in range(self.version + 1, newest + 1):
            commit = read_commit(self._path, version)
            if commit is None:
                raise AlertLogError(f"version {version} of the alerts table is no longer in its log")
            new += commit.appended
        transitions: list[Transition] = []
        if new:
            dataset = self._table.to_pyarrow_dataset()
            fragments = [dataset.format.make_fragment(file, dataset.filesystem) for file in new]
            try:
                rows = FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem).to_table()
            except FileNotFoundError as error:
                raise AlertLogError(f"a new file of the alerts table is missing: {error}"[:300]) from None
            transitions = read_rows(ALERTS.name, rows, read_transition)
        self.version = newest
        return transitions


class _Log:
    """One append-only table, opened at its first use; if it may not be written it may be missing, and is then empty."""

    def __init__(self, warehouse: Location, contract: Table, may_write: bool) -> None:
        self._warehouse, self._contract, self._may_write = warehouse, contract, may_write
        self._path = table_path(warehouse, contract.name)
        self._table: DeltaTable | None = None
        self._appender: Appender | None = None
        self._read_version: int | None = None
        self._failure: tuple[str, TableAccessError] | None = None

    def opened(self) -> Self:
        """Open the table, unless it is open. Raises TableAccessError."""
        try:
            if self._table is None and self._may_write:
                self._table = open_table(self._warehouse, self._contract)
                self._appender = Appender(self._path, self._table)
            elif self._table is None:
                self._table = open_written(self._warehouse, self._contract)
        except NotWrittenError:
            pass
        except TABLE_ERRORS as error:
            self._table = None
            raise access_error(self._path, error) from error
        return self

    def version(self) -> int:
        """Return the newest version, which later reads are of; -1 of a missing table."""
        if self._table is None:
            return -1
        catch_up(self._table)
        return int(self._table.version())

    def read(self, columns: Sequence[str], wanted: pc.Expression | None = None) -> pa.Table:
        """Return the rows; columns that an older table lacks are null."""
        if self._table is None:
            return arrow_schema(self._contract).empty_table().select(list(columns))
        return read_files(self._contract, self._table, columns, wanted)

    def read_changed(self, order: str) -> pa.Table | None:
        """Return all rows by this time; None if nothing has changed. After a failure the table is reopened."""
        try:
            version = self.opened().version()
            rows = None if version == self._read_version else self.read(self._contract.names).sort_by(order)
        except TABLE_ERRORS as error:
            self._table = self._read_version = None
            if self._failure is None or self._failure[0] != str(error):
                self._failure = str(error), access_error(self._path, error)
            raise self._failure[1] from error
        self._read_version, self._failure = version, None
        return rows

    def append(self, rows: Sequence[dict[str, Any]], batch_id: int, transaction: Transaction | None = None) -> None:
        """Append in one commit. Raises RuntimeError if the table may not be written."""
        if self._appender is None:
            raise RuntimeError(f"{self._contract.name} is read-only here")
        self._appender.append(arrow_table(rows, self._contract, batch_id), transaction)

    @property
    def written(self) -> int:
        """Return the newest version that the appends know of; -1 if the table may not be written."""
        return -1 if self._appender is None else self._appender.version

    def transaction_version(self, app_id: str) -> int | None:
        known = None if self._table is None else self._table.transaction_version(app_id)
        return None if known is None else int(known)
