"""What is said when the tables cannot be asked."""


class WarehouseError(RuntimeError):
    """The tables are not there, or cannot be asked this. The message names the setting or the query's fault."""


class FilesGoneError(WarehouseError):
    """Compaction and vacuum took away files that the log named a moment ago: ask again."""
