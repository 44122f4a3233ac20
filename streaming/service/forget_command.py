"""`balancewatch forget`: stop expecting data of a decommissioned cluster, broker, group or collector."""

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import structlog
import typer

from conf.location import Location
from schemas.events import CLOCKS
from streaming.kafka_io.publisher import Publisher, PublishError
from streaming.queries.events import BROKER, CLUSTER, COLLECTOR, FORGET, GROUP
from streaming.store.freshness import LIVE_TABLES
from streaming.store.store import History
from streaming.terminal.command import fail, load, needs_kafka
from streaming.terminal.setting_options import BootstrapServers, Warehouse
from streaming.text.output import say
from streaming.text.suggestions import suggest
from streaming.text.times import time_text, to_ms, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.prose import count

MOST_CHARACTERS = 255
"""Length of a name, owner or reason."""

MOST_BROKERS = 1_000
"""Brokers of a cluster that one event names."""

log = structlog.get_logger()


class UnknownNameError(ValueError):
    """No table has this cluster, broker, group or collector. The message names the nearest."""


@dataclass(frozen=True)
class Decision:
    """What to forget. `kind` is cluster, broker, group or collector."""

    cluster: str
    kind: str
    name: str
    owner: str
    reason: str

    @property
    def what(self) -> str:
        cluster = f"cluster {self.cluster}"
        return cluster if self.kind == CLUSTER else f"{self.kind} {self.name} of {cluster}"


@dataclass(frozen=True)
class Effects:
    """Open incidents, oldest first, and the brokers and groups of the cluster in the tables."""

    incidents: list[dict[str, Any]]
    brokers: list[str]
    groups: list[str]


def read_effects(warehouse: Location, decision: Decision) -> Effects:
    """Return what the decision resolves, from the tables. Raises UnknownNameError or WarehouseError."""
    history, cluster, kind = History(warehouse, LIVE_TABLES), decision.cluster, decision.kind
    clusters = _names(history, "cluster", None)
    if cluster not in clusters:
        raise UnknownNameError(f"--cluster {cluster!r} does not exist{suggest(cluster, clusters)}")
    brokers, groups = _names(history, "broker_name", cluster), _names(history, "consumer_group", cluster)
    columns = "kind, state, started_at, summary, cluster, broker_name, consumer_group, labels"
    incidents = history.rows(
        f"SELECT {columns} FROM alerts_now WHERE cluster = ? "  # noqa: S608  # from above
        "AND (state <> 'RESOLVED' OR kind = 'cluster_no_data') ORDER BY started_at, kind",
        [cluster],
    )
    known, where, hint = {BROKER: brokers, GROUP: groups}.get(kind, clusters), "does not exist in", ""
    if kind == COLLECTOR:
        known, where = {name for row in incidents for name in _subjects(kind, row)}, "is in no alert of"
        hint = "; only a collector that an alert reports as silent can be forgotten"
    if decision.name not in known:
        nearest = suggest(decision.name, known)
        raise UnknownNameError(f"--{kind} {decision.name!r} {where} cluster {cluster}{nearest}{hint}")
    resolved = [row for row in incidents if row["state"] != "RESOLVED" and decision.name in _subjects(kind, row)]
    return Effects(resolved, sorted(brokers), sorted(groups))


def _subjects(kind: str, row: dict[str, Any]) -> list[str]:
    """Return what of a decision's kind the incident is about. An alert has its brokers' names joined by commas."""
    if kind == COLLECTOR:
        name = json.loads(row["labels"] or "{}").get("collector")
        return [name] if name and row["kind"] == "cluster_no_data" else []
    column = {BROKER: "broker_name", GROUP: "consumer_group"}.get(kind, "cluster")
    return (row[column] or "").split(",") if kind == BROKER else [row[column]]


def _names(history: History, column: str, cluster: str | None) -> set[str]:
    """Return all values of a column in the tables that have it, of one cluster or of all."""
    tables = [table.name for table in LIVE_TABLES if any(one.name == column for one in table.columns)]
    where = "WHERE cluster = ?" if cluster is not None else ""
    value = "unnest(string_split(broker_name, ','))" if column == "broker_name" else column
    union = " UNION ".join(f"SELECT {value} AS name FROM {table} {where}" for table in tables)  # noqa: S608  # names of schemas
    rows = history.rows(union, [cluster] * len(tables) if cluster is not None else [])
    return {row["name"] for row in rows if row["name"]}


def forget_event(decision: Decision, brokers: list[str], now_ms: int) -> dict[str, Any]:
    """Return the clock event of the decision, which does not advance time; for a cluster it names the brokers."""
    named = brokers[:MOST_BROKERS] if decision.kind == CLUSTER else [decision.name] if decision.kind == BROKER else []
    entry = {"kind": decision.kind, "name": decision.name, "owner": decision.owner, "reason": decision.reason}
    return {
        "cluster": decision.cluster,
        "source": FORGET,
        "brokers_asked": named,
        "brokers_answered": [],
        "forgotten": [entry],
        "event_time_ms": now_ms,
    }


def forget(
    cluster: Annotated[str, typer.Option(help="RocketMQ cluster; without another option, all of it is forgotten.")],
    owner: Annotated[str, typer.Option(help="Person who decides.")],
    reason: Annotated[str, typer.Option(help="Reason.")],
    broker: Annotated[str | None, typer.Option(help="Only this broker.")] = None,
    group: Annotated[str | None, typer.Option(help="Only this consumer group.")] = None,
    collector: Annotated[str | None, typer.Option(help="Only this collector, named as in its alert.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be resolved; change nothing.")] = False,
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
) -> None:
    """Resolve all alerts of a decommissioned or renamed cluster, broker, consumer group or collector.

    New data starts it afresh.

    Example: balancewatch forget --cluster old --owner ada --reason "moved to new" --dry-run

    Example: balancewatch forget --cluster main --broker broker-c --owner ada --reason "decommissioned"

    Example: balancewatch forget --cluster main --collector pod-1/ns:9876 --owner ada --reason "replaced by pod-2"
    """
    parts = {"broker": broker, "group": group, "collector": collector}
    given = {kind: name for kind, name in parts.items() if name is not None}
    if len(given) > 1:
        fail(f"{' and '.join(f'--{kind}' for kind in given)}: give one of them", code=2)
    texts = {"cluster": cluster, "owner": owner, "reason": reason, **given}
    for flag, text in texts.items():
        if not text.strip() or len(text) > MOST_CHARACTERS:
            fail(f"--{flag} {text[:50]!r}: give 1 to {MOST_CHARACTERS} characters", code=2)
    settings = load(kafka={"bootstrap_servers": bootstrap_servers}, paths={"warehouse": warehouse})
    if not dry_run:
        needs_kafka(settings)
    kind, name = next(iter(given.items()), (CLUSTER, cluster))
    decision = Decision(cluster, kind, name, owner.strip(), reason.strip())
    try:
        effects = read_effects(settings.paths.warehouse, decision)
        if not dry_run:
            with Publisher(settings.kafka) as publisher:
                publisher.publish(CLOCKS, forget_event(decision, effects.brokers, wall_ms()))
                publisher.flush()
            log.info("forgotten", **asdict(decision), incidents=len(effects.incidents))
    except (UnknownNameError, WarehouseError, PublishError) as error:
        fail(str(error))
    resolved = count(len(effects.incidents), "open incident")
    if kind == CLUSTER:
        resolved += f", {count(len(effects.groups), 'group')} and {count(len(effects.brokers), 'broker')}"
    if dry_run:
        say(f"{decision.what} would be forgotten, with {resolved}; nothing was changed.")
    else:
        say(f"{decision.what} forgotten by {decision.owner}: {decision.reason}. `run` resolves or drops {resolved}.")
    for row in effects.incidents:
        say(f"  {row['kind']} {row['state']}, since {time_text(to_ms(row['started_at']))}: {row['summary']}")
