"""Errors of the tables."""

from conf.location import Location
from streaming.system.known_error import BalancewatchError
from udfs.alerts.phrase import phrase


class WarehouseError(BalancewatchError):
    """The tables are not there, or cannot be asked this. The message names the setting or the query's fault."""


class NotWrittenError(WarehouseError):
    """`run` has not written a table yet, or any. The message names the setting and the table."""

    def __init__(self, warehouse: Location, table: str | None = None) -> None:
        """Without `table` the warehouse has no table at all."""
        missing = phrase("no tables") if table is None else phrase("no table {table}", table=table)
        text = phrase(
            "paths.warehouse = {path!r}: {missing} found; has `balancewatch run` written here?", missing=missing
        )
        self.sentence = text.given(path=str(warehouse))
        super().__init__(str(self.sentence))


class FilesGoneError(WarehouseError):
    """Compaction and vacuum took away files that the log named a moment ago: ask again."""


class TableAccessError(WarehouseError):
    """A table cannot be read. The message names the table and, if its log is damaged, the file."""

    def __init__(self, table: str, file: str | None, reason: str) -> None:
        self.table, self.file = table, file
        super().__init__(f"table {table} cannot be read: {f'{file} is damaged' if file else reason}")
