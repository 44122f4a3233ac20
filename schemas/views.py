"""Views for people: SQL over the tables that DuckDB and Spark both understand.

Each table has a view of the same name with every transition; `<table>_now` has the newest row of each key, and
`<table>_at(moment)` the newest as of a moment of the table's time column. VIEWS lists the views on top; they leave the
canary's rows out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.tables import Table


@dataclass(frozen=True)
class View:
    """A named query with a description of its rows."""

    name: str
    comment: str
    sql: str


def newest_sql(table: Table, quote: str, until: str = "") -> str:
    """The newest row of each key, by the table's time; with `until`, an SQL expression, of the rows up to then.

    `quote` is what the engine puts around identifiers: DuckDB a double quote, Spark a backtick.
    """

    def named(columns: tuple[str, ...] | list[str]) -> str:
        return ", ".join(f"{quote}{column}{quote}" for column in columns)

    window = f"PARTITION BY {named(table.key)} ORDER BY {table.time} DESC, batch_id DESC"
    rows_until = f" WHERE {table.time} <= {until}" if until else ""
    return (
        f"SELECT {named(table.names)} FROM "
        f"(SELECT *, row_number() OVER ({window}) AS recency FROM {table.name}{rows_until}) AS transitions "
        "WHERE recency = 1"
    )


_NO_CANARY = "cluster <> 'balancewatch_canary'"

ALL_INCIDENTS = "SELECT *, CASE WHEN state = 'RESOLVED' THEN changed_at END AS ended_at FROM alerts_now"
"""The view `incidents`, including the canary's."""

VIEWS: Mapping[str, View] = {
    view.name: view
    for view in (
        View(
            "incidents",
            "The newest row of each incident, with ended_at if it is resolved; without the canary.",
            f"{ALL_INCIDENTS} WHERE {_NO_CANARY}",
        ),
        View(
            "firing",
            "Incidents that fire now and are not inhibited; without the canary.",
            f"SELECT * FROM alerts_now WHERE state = 'FIRING' AND inhibited_by IS NULL AND {_NO_CANARY}",
        ),
        View(
            "members",
            "Channels that are members of a consumer group now, per broker; without the canary.",
            f"SELECT * FROM memberships_now WHERE change IN ('JOINED', 'CHANGED') AND {_NO_CANARY}",
        ),
        View(
            "starved_queues",
            "Queues that no client consumes now: UNOWNED has no owner, NOT_CONSUMED has one that does not pull. "
            "Without the canary.",
            f"SELECT * FROM assignments_now WHERE verdict IN ('UNOWNED', 'NOT_CONSUMED') AND {_NO_CANARY}",
        ),
        View(
            "backlogged_queues",
            "Queues with a backlog of 1,000 messages or more now; without the canary.",
            f"SELECT * FROM backlogs_now WHERE messages >= 1000 AND {_NO_CANARY}",
        ),
        View(
            "avoided_brokers",
            "Brokers that at least one producer avoids now: k (unavailable_producers) of n (producers). "
            "Without the canary.",
            f"SELECT * FROM broker_health_now WHERE unavailable_producers > 0 AND {_NO_CANARY}",
        ),
    )
}
"""In order of creation: a view may use earlier ones."""

MOST_SEVERE_FIRST = "list_position(['critical', 'error', 'warning', 'info'], severity) NULLS LAST"
"""ORDER BY of rows with a severity."""


def acknowledged_sql(until: str = "") -> str:
    """Return SQL for who acknowledged each incident last; with `until`, an SQL expression, of the rows up to then."""
    rows_until = f" WHERE acknowledged_at <= {until}" if until else ""
    return (
        "SELECT incident_id, arg_max(acknowledged_by, acknowledged_at) AS acknowledged_by "
        f"FROM acknowledgements{rows_until} GROUP BY incident_id"
    )
