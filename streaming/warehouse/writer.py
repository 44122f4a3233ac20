"""A batch's rows into their Delta tables, exactly once.

A batch appends to each table under a Delta transaction (app id, batch id); a batch that is run again after a crash
finds its transaction there and is skipped, table by table.
"""

import pyarrow as pa
import structlog
from deltalake import Transaction
from deltalake.exceptions import DeltaError

from conf.location import Location
from schemas.tables import ACKNOWLEDGEMENTS, ALERT_DELIVERIES, SILENCES, TABLES, Table
from streaming.warehouse.appender import Appender
from streaming.warehouse.delta_log import access_error
from streaming.warehouse.rows import Rows, arrow_table
from streaming.warehouse.tables import open_table, table_path

OF_OTHERS = (ALERT_DELIVERIES, SILENCES, ACKNOWLEDGEMENTS)
"""Tables that only the relay and the commands write."""

log = structlog.get_logger()


class DeltalakeWriter:
    """Appends from the driver without the JVM: one file, one commit, about a millisecond, however old the table is."""

    def __init__(self, warehouse: Location, *, is_synced: bool = True) -> None:
        """Create missing tables. Raises TableAccessError, or AppendRefusedError if an append would break a table.

        A damaged table that the query does not write is logged and skipped.
        """
        self._appenders: dict[str, Appender] = {}
        for name, table in TABLES.items():
            path = table_path(warehouse, name)
            try:
                self._appenders[name] = Appender(path, open_table(warehouse, table), is_synced=is_synced)
            except DeltaError as error:
                refused = access_error(path, error)
                if table not in OF_OTHERS:
                    raise refused from error
                log.error("table not opened", table=name, file=refused.file, error=str(refused))

    def newest_batch(self, app_id: str) -> int:
        """Return the newest batch of the query that any table has; -1 without one."""
        return max((appender.newest(app_id) for appender in self._appenders.values()), default=-1)

    def append(self, table: Table, rows: pa.Table, app_id: str, batch_id: int) -> int | None:
        """Return the version with exactly these rows; None if the batch was in already, or the version is unknown."""
        return self._appenders[table.name].append(rows, Transaction(app_id, batch_id))


def append_rows(writer: DeltalakeWriter, rows: Rows, app_id: str, batch_id: int) -> None:
    """Append a batch's rows to their tables. Rows of no table are for `run`."""
    for name in sorted(rows.keys() & TABLES.keys()):
        table = TABLES[name]
        writer.append(table, arrow_table(rows[name], table, batch_id), app_id, batch_id)
