"""`balancewatch clusters`, `groups` and `brokers`: the newest state, one line each."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from schemas.tables import ALERTS
from streaming.history.query_options import Broker, Cluster, FormatName, Group, QueryOptions, parse_options
from streaming.history.table_question import is_glob, open_history, read_notes
from streaming.store.current import read_brokers, read_clusters, read_groups
from streaming.store.freshness import LIVE_TABLES
from streaming.store.store import History
from streaming.terminal.command import fail
from streaming.terminal.printing import Layout, age, plain, print_lines, print_rows, styled_state
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import note
from streaming.text.times import to_time, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError

Row = dict[str, Any]
COLUMNS = {"cluster": "cluster", "group": "consumer_group", "broker": "broker_name"}


def clusters(cluster: Cluster = None, format_: FormatName = "table", warehouse: Warehouse = None) -> None:
    """List the clusters in their newest state.

    NO_DATA: no broker of the cluster sends data, or some do not. The data are as new as the newest change.

    Example: balancewatch clusters

    Example: balancewatch clusters --cluster 'prod-*' -o json
    """
    now_ms = wall_ms()
    options = parse_options(format_=format_, warehouse=warehouse, cluster=cluster)
    layout: Layout = {
        "cluster": lambda row: row["cluster"],
        "state": lambda row: styled_state(row["state"]),
        "firing": lambda row: f"{row['firing']:,}",
        "brokers": lambda row: f"{row['brokers']:,}",
        "groups": lambda row: f"{row['groups']:,}",
        "queues": lambda row: f"{row['queues']:,}",
        "newest change": lambda row: age(row["newest_change_at"], now_ms),
        "without data": lambda row: " ".join(row["without_data"]),
    }
    _list(options, read_cluster_states, layout)


def read_cluster_states(history: History) -> list[Row]:
    """Return read_clusters with a state, and the time of the newest change."""
    return [
        {
            "cluster": row.pop("cluster"),
            "state": "NO_DATA" if row.pop("is_without_data") or row["without_data"] else "OK",
            "newest_change_at": to_time(row.pop("newest_ms")),
            **row,
        }
        for row in read_clusters(history)
    ]


def groups(
    cluster: Cluster = None, group: Group = None, format_: FormatName = "table", warehouse: Warehouse = None
) -> None:
    """List the consumer groups in their newest state, the worst first.

    The state is the worst verdict on a queue; `wrong` counts the queues with a problem.

    Example: balancewatch groups

    Example: balancewatch groups --group 'billing*' -o wide
    """
    options = parse_options(format_=format_, warehouse=warehouse, cluster=cluster, group=group)
    layout: Layout = {
        "cluster": lambda row: row["cluster"],
        "group": lambda row: row["consumer_group"],
        "state": lambda row: styled_state(row["worst"]),
        "firing": lambda row: f"{row['firing']:,}",
        "members": lambda row: f"{row['members']:,}",
        "queues": lambda row: f"{row['queues']:,}",
        "wrong": lambda row: f"{row['wrong']:,}",
        "alert": lambda row: row["kind"] or "",
    }
    _list(options, read_groups, layout)


def brokers(
    cluster: Cluster = None, broker: Broker = None, format_: FormatName = "table", warehouse: Warehouse = None
) -> None:
    """List the brokers in their newest state, the worst first.

    AVOIDED: producers avoid the broker; `avoided by` counts them, of all that know it. NO_DATA: it sends no data.

    Example: balancewatch brokers

    Example: balancewatch brokers --broker 'broker-a*' -o json
    """
    options = parse_options(format_=format_, warehouse=warehouse, cluster=cluster, broker=broker)
    layout: Layout = {
        "cluster": lambda row: row["cluster"],
        "broker": lambda row: row["broker_name"],
        "state": lambda row: styled_state(row["state"]),
        "firing": lambda row: f"{row['firing']:,}",
        "avoided by": lambda row: f"{row['avoiding']} of {row['producers']}" if row["producers"] else "",
        "until": lambda row: row["avoided_until"] or "",
        "alert": lambda row: row["kind"] or "",
    }
    _list(options, read_brokers, layout)


def _list(options: QueryOptions, read: Callable[[History], Sequence[Row]], layout: Layout) -> None:
    """Print the rows that match, and notes. Leaves with 1 where the tables cannot be read."""
    try:
        history = open_history(options, ALERTS, *LIVE_TABLES)
        rows = [row for row in read(history) if _is_asked(row, options.names)]
        shown = rows if options.format == "parquet" else [*map(plain, rows)]
        print_rows(shown, options.format, "Nothing matches.", lambda rows: print_lines(rows, layout))
        notes = read_notes(history, options, is_empty=not rows)
    except WarehouseError as error:
        fail(str(error))
    for line in notes:
        note(line)


def _is_asked(row: Row, names: Mapping[str, Any]) -> bool:
    return all(
        fnmatchcase(row[COLUMNS[name]], value) if is_glob(value) else row[COLUMNS[name]] == value
        for name, value in names.items()
    )
