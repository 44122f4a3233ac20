"""`balancewatch clusters`, `groups` and `brokers`: the newest state, one line each."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from schemas.tables import ALERTS, BACKLOGS, Table
from streaming.history.query_options import Broker, Cluster, FormatName, Group, QueryOptions, parse_options
from streaming.history.table_question import is_glob, open_history, read_notes
from streaming.store.current import read_brokers, read_clusters, read_groups
from streaming.store.freshness import LIVE_TABLES
from streaming.store.store import History
from streaming.terminal.command import fail
from streaming.terminal.printing import layout_of, plain, print_lines, print_rows
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import note
from streaming.text.times import to_time
from streaming.warehouse.warehouse_error import WarehouseError

Row = dict[str, Any]
COLUMNS = {"cluster": "cluster", "group": "consumer_group", "broker": "broker_name"}


def clusters(cluster: Cluster = None, format_: FormatName = "table", warehouse: Warehouse = None) -> None:
    """List the clusters in their newest state.

    NO_DATA: at least one broker of the cluster sends no data.

    Example: balancewatch clusters

    Example: balancewatch clusters --cluster 'prod-*' -o json
    """
    options = parse_options(format_=format_, warehouse=warehouse, cluster=cluster)
    columns = {name: name for name in ("cluster", "state", "firing", "brokers", "groups", "queues")}
    columns |= {"newest change": "newest_change_at", "without data": "without_data"}
    _list(options, read_cluster_states, columns)


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

    The state is the worst verdict on a queue; `wrong` counts the queues with a problem. The backlog is in messages,
    within a factor of two; queues below 1,000 do not count.

    Example: balancewatch groups

    Example: balancewatch groups --group 'billing*' -o wide
    """
    options = parse_options(format_=format_, warehouse=warehouse, cluster=cluster, group=group)
    columns = {"cluster": "cluster", "group": "consumer_group", "state": "worst", "firing": "firing"}
    columns |= {"members": "members", "queues": "queues", "wrong": "wrong", "backlog": "backlog", "kind": "kind"}
    _list(options, read_groups, columns, BACKLOGS)


def brokers(
    cluster: Cluster = None, broker: Broker = None, format_: FormatName = "table", warehouse: Warehouse = None
) -> None:
    """List the brokers in their newest state, the worst first.

    AVOIDED: `avoided by` counts the producers that avoid the broker, of those that know it. NO_DATA: it sends no data.

    Example: balancewatch brokers

    Example: balancewatch brokers --broker 'broker-a*' -o json
    """
    options = parse_options(format_=format_, warehouse=warehouse, cluster=cluster, broker=broker)
    columns = {"cluster": "cluster", "broker": "broker_name", "state": "state", "firing": "firing"}
    columns |= {"avoided by": "avoiding", "producers": "producers", "until": "avoided_until", "kind": "kind"}
    _list(options, read_brokers, columns)


def _list(
    options: QueryOptions, read: Callable[[History], Sequence[Row]], columns: Mapping[str, str], *more: Table
) -> None:
    """Print the rows that match, with these columns by heading, and notes. Leaves with 1 for unreadable tables."""
    try:
        history = open_history(options, ALERTS, *LIVE_TABLES, *more)
        rows = [row for row in read(history) if is_asked(row, options.names)]
        shown = rows if options.format == "parquet" else [*map(plain, rows)]
        print_rows(shown, options.format, "Nothing matches.", lambda rows: print_lines(rows, layout_of(columns)))
        notes = read_notes(history, options, is_empty=not rows)
    except WarehouseError as error:
        fail(str(error))
    for line in notes:
        note(line)


def is_asked(row: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    """Return whether a row has these names, by option of COLUMNS; a name may be a glob."""
    return all(
        fnmatchcase(row[COLUMNS[name]], value) if is_glob(value) else row[COLUMNS[name]] == value
        for name, value in names.items()
    )
