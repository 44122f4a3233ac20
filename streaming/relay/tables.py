"""The relay's Delta tables: alerts, alert_deliveries, silences, acknowledgements.

The tables are read as Arrow, without DuckDB or a JVM; each stays open and is read on by version. An append is one
commit. The relay alone writes alert_deliveries; the commands and the board write silences and
acknowledgements.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from deltalake import DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from obstore.exceptions import BaseError

from conf.location import Location
from schemas.tables import ACKNOWLEDGEMENTS, ALERT_DELIVERIES, ALERTS, SILENCES, Table
from streaming.relay.notice import EVERYBODY, Notice, read_notice, read_record
from streaming.system.known_error import BalancewatchError
from streaming.text.result import records_of
from streaming.text.times import to_ms, to_time
from streaming.warehouse.appender import Appender
from streaming.warehouse.delta_log import access_error, read_commit
from streaming.warehouse.readable_rows import (
    UNREADABLE,
    Row,
    dataset_of,
    open_written,
    read_files,
    read_rows,
    say_left_out,
    say_nameless,
    whole,
    why,
)
from streaming.warehouse.rows import arrow_schema, arrow_table
from streaming.warehouse.tables import catch_up, open_table, table_path
from streaming.warehouse.warehouse_error import NotWrittenError
from udfs.alerts.pattern import read_matchers
from udfs.alerts.silence import Silence

log = structlog.get_logger()

APP_ID = "balancewatch-relay"
"""Its Delta transaction version in alert_deliveries: what was over by that time, ms, precedes the first relay."""

MOST_COMPLETED = 100_000
"""Names of resolved incidents that are kept, so that a row that is read twice is not notified twice."""

LATE_MS = 10_000
"""How long notifications wait for the log; then they continue without it."""

WRITE_PAUSE_MS = 5_000
"""After a failed write."""

ALERT_COLUMNS = ("incident_id", "state", "changed_at")
LOG_COLUMNS = ("incident_id", "receiver", "delivery_key", "status", "outcome", "delivered_at")
RECORD_COLUMNS = (*LOG_COLUMNS, "reason", "route", "attempt", "static_labels", "batch_id")

TABLE_ERRORS = (DeltaError, BaseError, OSError, pa.ArrowException, BalancewatchError)
"""What an access to a table raises if the table is damaged, away, or full."""


class AlertLogError(BalancewatchError):
    """New rows of the alerts table are no longer in its log; `maintain.reader_hours` says how long they stay."""


class History(NamedTuple):
    """What the tables say at a start: the rows of incidents with something left to do, and the names of the others.

    What was over by `until_ms` without a notification is never notified.
    """

    notices: list[Notice]
    records: list[Row]
    completed: list[str]
    until_ms: int


class RelayTables:
    """The four tables, each opened at its first use. Missing ones are created, unless `may_write` is false."""

    def __init__(self, warehouse: Location, *, may_write: bool = True) -> None:
        self.unreadable: list[tuple[Row, str]] = []
        self._may_write = may_write
        self._logs = {
            contract: _Log(warehouse, contract, may_write)
            for contract in (ALERTS, ALERT_DELIVERIES, SILENCES, ACKNOWLEDGEMENTS)
        }
        self._alerts, self._deliveries, self._silences, self._acknowledgements = self._logs.values()

    def read_history(self, receivers: Collection[str], renewed_since_ms: int, now_ms: int) -> History:
        """Read all that a new relay must know. Only incidents that are not completed become objects.

        Raises TableAccessError.
        """
        self._deliveries.update()
        self._alerts.read_version = self._alerts.update()
        alerts = self._alerts.read(ALERT_COLUMNS)
        deliveries = self._deliveries.read(LOG_COLUMNS, pc.field("delivery_key").is_valid())
        say_nameless(ALERTS.name, alerts)
        say_nameless(ALERT_DELIVERIES.name, deliveries)
        until_ms = self._history_until(alerts, now_ms)
        completed = pick_completed(alerts, deliveries, receivers, renewed_since_ms, until_ms)
        others = set(alerts["incident_id"].drop_null().unique().to_pylist()).difference(completed)
        del alerts, deliveries
        notices: list[Notice] = []
        records: list[Row] = []
        if others:
            wanted = pc.field("incident_id").isin(pa.array(sorted(others), pa.string()))
            notices = read_rows(ALERTS.name, self._alerts.read(ALERTS.names, wanted), read_notice)
            found = self._deliveries.read(RECORD_COLUMNS, wanted & pc.field("delivery_key").is_valid())
            records = read_rows(ALERT_DELIVERIES.name, found.sort_by("batch_id"), read_record)
        return History(notices, records, completed[-MOST_COMPLETED:], until_ms)

    def append(self, table: Table, rows: Sequence[Row]) -> int:
        """Append to one of the four, in one commit; return how many of the rows, from the first, are in the table.

        Only those of the last call, if its answer was lost. Raises RuntimeError if the tables may not be written.
        """
        return self._logs[table].append(rows)

    def read_new_alerts(self) -> list[Notice]:
        """Return the rows that were appended to the alerts table since the last call, or since `read_history`.

        Rows that maintenance rewrites, compacting the table or dropping old rows, are not new. Raises AlertLogError if
        the log or a file is gone.
        """
        return read_rows(ALERTS.name, self._alerts.read_new(), read_notice)

    def read_silences(self) -> list[Silence] | None:
        """Return the newest row of each silence; None if nothing has changed since the last call.

        Unreadable rows silence nothing and are in `unreadable`, with the reason. Raises TableAccessError.
        """
        rows = self._silences.read_changed("changed_at")
        if rows is None:
            return None
        silences: list[Silence] = []
        self.unreadable = []
        for row in {row["silence_id"]: row for row in records_of(rows)}.values():
            try:
                whole(SILENCES)(row)
                matchers, span = read_matchers(row["matchers"]), (to_ms(row["starts_at"]), to_ms(row["ends_at"]))
                silences.append(Silence(row["silence_id"], matchers, row["created_by"], row["comment"], *span))
            except UNREADABLE as error:
                say_left_out(SILENCES.name, row, error)
                self.unreadable.append((row, why(error)))
        return silences

    def read_acknowledgements(self) -> list[Row] | None:
        """Return all of them; None if nothing has changed since the last call. Raises TableAccessError."""
        rows = self._acknowledgements.read_changed("acknowledged_at")
        return None if rows is None else read_rows(ACKNOWLEDGEMENTS.name, rows, whole(ACKNOWLEDGEMENTS))

    def add_silence(self, silence: Silence, now_ms: int) -> None:
        """Append a silence, or the newest row of a known one, later than the others however the clock was set."""
        self._silences.update()
        known = self._silences.read(["silence_id", "changed_at"], having={"silence_id": silence.silence_id})
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
        self._silences.append([row])

    def _history_until(self, alerts: pa.Table, now_ms: int) -> int:
        """Return the time of the newest row that the very first relay found."""
        if (known := self._deliveries.transaction_version(APP_ID)) is not None:
            return known
        so_far = alerts.filter(pc.less_equal(alerts["changed_at"], at(now_ms)))  # a time in the future is a mistake
        newest = pc.max(so_far["changed_at"]).as_py()
        newest_ms = to_ms(newest) if newest is not None else now_ms
        if self._may_write:
            self._deliveries.append([], Transaction(APP_ID, newest_ms))
        return newest_ms


class DeliveryLog:
    """The decisions: rows of alert_deliveries, and of the alerts table about the relay, until they are written.

    One write at a time. A failure is logged once, and the next write is WRITE_PAUSE_MS later. `decided` counts all
    records.
    """

    def __init__(self, tables: RelayTables, on_decided: Callable[[Sequence[Row]], None]) -> None:
        self.alerts: list[Row] = []
        self.decided = 0
        self.late_at_ms: int | None = None
        """Until when notifications wait for the write under way."""
        self._tables, self._on_decided = tables, on_decided
        self._records: list[Row] = []
        self._has_failed, self._resumes_at_ms = False, 0

    def add(self, *records: Row) -> None:
        self._records += records
        self.decided += len(records)
        self._on_decided(records)

    def begin(self, pace_ms: int, *, is_last: bool) -> bool:
        """Return whether to call `append`. The last write does not wait for the end of a pause."""
        is_due = bool(self.alerts or self._records) and (pace_ms >= self._resumes_at_ms or is_last)
        if self.late_at_ms is not None or not is_due:
            return False
        self.late_at_ms = pace_ms + LATE_MS
        return True

    def append(self) -> None:
        """Write the alerts, which the log's rows refer to, then those; what is written is taken off."""
        for table, pending in ((ALERTS, self.alerts), (ALERT_DELIVERIES, self._records)):
            while pending:
                del pending[: self._tables.append(table, [*pending])]

    def end(self, error: Exception | None, pace_ms: int) -> None:
        """Note the end of `append`, and what it raised."""
        self.late_at_ms = None
        if error is None:
            self._has_failed, self._resumes_at_ms = False, 0
        elif isinstance(error, TABLE_ERRORS):
            self._resumes_at_ms = pace_ms + WRITE_PAUSE_MS
            self._fail(str(error)[:500])
        else:
            raise error

    def is_recorded(self, pace_ms: int) -> bool:
        """Return whether notifications are sent: all records are in the log, or it fails."""
        if self.late_at_ms is not None and pace_ms >= self.late_at_ms:
            self._fail(f"not finished within {LATE_MS // 1000} s")
        return self._has_failed or not self._records

    def _fail(self, error: str) -> None:
        if not self._has_failed:
            log.error("delivery log not written, notifications continue", error=error)
        self._has_failed = True


def pick_completed(
    alerts: pa.Table, log: pa.Table, receivers: Collection[str], renewed_since_ms: int, history_until_ms: int
) -> list[str]:
    """Return the incidents that need nothing more, by the time of their end.

    An incident that is over is completed if its end is answered by all of these receivers, before `renewed_since_ms`;
    or without notifications if it was withheld until its end, never fired, or ended before the first relay.
    """

    def incidents(table: pa.Table, mask: pa.ChunkedArray) -> set[str]:
        return set(table["incident_id"].filter(mask).unique().to_pylist())

    is_due = pc.equal(log["outcome"], "PENDING")
    is_answer = pc.is_in(log["outcome"], pa.array(["DELIVERED", "REFUSED"]))
    pairs = pc.binary_join_element_wise(log["delivery_key"], log["receiver"], "\n")
    is_unanswered = pc.invert(pc.is_in(pairs, pairs.filter(is_answer)))
    is_configured = pc.is_in(log["receiver"], pa.array(list(receivers), pa.string()))
    is_closed = pc.and_(pc.equal(log["receiver"], EVERYBODY), pc.equal(log["status"], "resolved"))
    is_renewed = pc.and_(is_answer, pc.greater_equal(log["delivered_at"], at(renewed_since_ms)))
    due = incidents(log, is_due)
    ended = incidents(log, pc.and_(is_due, pc.match_substring(log["delivery_key"], ":resolved:")))
    left = incidents(log, is_renewed) | incidents(log, pc.and_(pc.and_(is_due, is_configured), is_unanswered))
    closed = incidents(log, pc.and_(is_closed, pc.invert(is_due)))
    is_end = pc.equal(alerts["state"], "RESOLVED")
    closed |= incidents(alerts, pc.and_(is_end, pc.less_equal(alerts["changed_at"], at(history_until_ms))))
    fired = incidents(alerts, pc.equal(alerts["state"], "FIRING"))
    over = alerts.filter(is_end).sort_by("changed_at")["incident_id"].drop_null().unique().to_pylist()
    return [
        name
        for name in over
        if (name in ended and name not in left if name in due else name in closed or name not in fired)
    ]


def at(at_ms: int) -> pa.Scalar:
    return pa.scalar(to_time(at_ms), pa.timestamp("us", "UTC"))


class _Log:
    """One append-only table, opened at its first use; if it may not be written it may be missing, and is then empty."""

    def __init__(self, warehouse: Location, contract: Table, may_write: bool) -> None:
        self._warehouse, self._contract, self._may_write = warehouse, contract, may_write
        self._path = table_path(warehouse, contract.name)
        self._table: DeltaTable | None = None
        self._appender: Appender | None = None
        self.read_version: int | None = None
        self._tried_rows = 0

    def update(self) -> int:
        """Open the table, or read on; return the newest version, -1 of a missing table. Raises TableAccessError."""
        try:
            if self._table is not None:
                catch_up(self._table)
            elif self._may_write:
                self._table = open_table(self._warehouse, self._contract)
            else:
                self._table = open_written(self._warehouse, self._contract)
        except NotWrittenError:
            return -1
        except TABLE_ERRORS as error:
            self._table = None
            raise access_error(self._path, error) from error
        return int(self._table.version())

    def read(
        self, columns: Sequence[str], wanted: pc.Expression | None = None, having: Mapping[str, str] | None = None
    ) -> pa.Table:
        """Return the rows; columns that an older table lacks are null. `having` is that of read_table."""
        if self._table is None:
            return arrow_schema(self._contract).empty_table().select(list(columns))
        return read_files(self._contract, self._table, columns, wanted, having)

    def read_changed(self, order: str) -> pa.Table | None:
        """Return all rows by this time; None if nothing has changed. After a failure the table is reopened."""
        try:
            version = self.update()
            rows = None if version == self.read_version else self.read(self._contract.names).sort_by(order)
        except TABLE_ERRORS as error:
            self._table = self.read_version = None
            raise access_error(self._path, error) from error
        self.read_version = version
        return rows

    def read_new(self) -> pa.Table:
        """Return the rows of files that were added since the version that was read last. Raises AlertLogError."""
        newest = self.update()
        appended: list[str] = []
        for version in range((self.read_version or 0) + 1, newest + 1):
            commit = read_commit(self._path, version)
            if commit is None:
                raise AlertLogError(f"version {version} of the {self._contract.name} table is no longer in its log")
            appended += commit.appended
        rows = arrow_schema(self._contract).empty_table()
        if appended and self._table is not None:
            try:
                rows = dataset_of(self._contract, self._table, appended).to_table()
            except FileNotFoundError as error:
                raise AlertLogError(
                    f"a new file of the {self._contract.name} table is missing: {error}"[:300]
                ) from None
        self.read_version = newest
        return rows

    def append(self, rows: Sequence[Row], transaction: Transaction | None = None) -> int:
        """Append in one commit; its version orders the rows. See RelayTables."""
        if not self._may_write:
            raise RuntimeError(f"{self._contract.name} is read-only here")
        if self._appender is None:
            self.update()
            self._appender = Appender(self._path, self._table)
        if not self._appender.is_failed_there():
            self._tried_rows = len(rows)
            table = arrow_table(map(dict, rows), self._contract, self._appender.version + 1)
            self._appender.append(table, transaction)
        return self._tried_rows

    def transaction_version(self, app_id: str) -> int | None:
        return None if self._table is None else self._table.transaction_version(app_id)
