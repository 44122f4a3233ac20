"""What each batch wrote, as a line of the log."""

from collections.abc import Callable

import structlog

from schemas.tables import TABLES
from streaming.queries.rows import Rows

log = structlog.get_logger()


def progress_logger() -> Callable[[str, int, Rows], None]:
    """An `on_rows` that logs what each batch wrote."""

    def report(name: str, batch_id: int, rows: Rows) -> None:
        written = {table: len(of_table) for table, of_table in sorted(rows.items()) if of_table and table in TABLES}
        if written:
            log.info("batch", query=name, batch_id=batch_id, **written)

    return report
