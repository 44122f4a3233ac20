"""One topic of one consumer group from the newest table rows: its queues and one broker's member list."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow.compute as pc

from conf.location import Location
from schemas.tables import ASSIGNMENTS, MEMBERSHIPS
from streaming.text.suggestions import suggest
from streaming.warehouse.readable_rows import Row, read_table
from streaming.whatif.whatif import UnknownGroupError, WhatIfError
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import parse_client_version
from udfs.whatif.group import Client, Group

TABLES = (ASSIGNMENTS, MEMBERSHIPS)
PRESENT = ("JOINED", "CHANGED")


@dataclass(frozen=True)
class LiveGroup:
    """`broker_name` provided the member list; `notes` limit what the outcome means."""

    group: Group
    broker_name: str | None
    notes: tuple[str, ...]


def read_group(
    warehouse: Location, consumer_group: str, topic: str, cluster: str | None, default_strategy: str
) -> LiveGroup:
    """Return the queues of the newest `assignments` rows and the members of the newest `memberships` rows.

    Member lists of brokers are never merged: the list of the topic's broker with most members counts, the first by name
    among equals. Raises UnknownGroupError where the group or topic does not exist, WhatIfError where several clusters
    have the group, and NotWrittenError without tables.
    """
    of_group = pc.field("consumer_group") == consumer_group
    assignments, memberships = (read_table(warehouse, table, of_group, newest=True) for table in TABLES)
    clusters = sorted({row["cluster"] for row in (*assignments, *memberships)})
    if not clusters:
        known = {row["consumer_group"] for table in TABLES for row in read_table(warehouse, table)}
        raise UnknownGroupError(f"--group {consumer_group!r} does not exist{suggest(consumer_group, known)}")
    cluster = _choose_cluster(cluster, clusters, consumer_group)
    assignments = [row for row in assignments if row["cluster"] == cluster]
    memberships = [row for row in memberships if row["cluster"] == cluster]
    queues = [row for row in assignments if row["topic"] == topic]
    if not queues:
        topics = {row["topic"] for row in assignments}
        raise UnknownGroupError(
            f"--topic {topic!r}: group {consumer_group} of cluster {cluster} has no queue of it{suggest(topic, topics)}"
        )
    broker_name, members = _reference_view(memberships, {row["broker_name"] for row in queues})
    reported = [row["strategy"] for row in members if row["strategy"]]
    group = Group(
        cluster=cluster,
        consumer_group=consumer_group,
        topic=topic,
        strategy=min(set(reported), key=lambda name: (-reported.count(name), name)) if reported else default_strategy,
        queues=tuple(sorted(MessageQueue(topic, row["broker_name"], row["queue_id"]) for row in queues)),
        clients=tuple(_client(row) for row in members),
    )
    return LiveGroup(group, broker_name, tuple(_notes(queues, memberships, broker_name, bool(reported), group)))


def _choose_cluster(asked: str | None, clusters: list[str], consumer_group: str) -> str:
    if asked is not None and asked not in clusters:
        raise UnknownGroupError(f"--cluster {asked!r} has no group {consumer_group}; it is in {', '.join(clusters)}")
    if asked is None and len(clusters) > 1:
        raise WhatIfError(
            f"group {consumer_group} is in several clusters; choose one with --cluster: {', '.join(clusters)}"
        )
    return asked or clusters[0]


def _views(memberships: Iterable[Row]) -> dict[str, list[Row]]:
    views: dict[str, list[Row]] = {}
    for row in memberships:
        if row["change"] in PRESENT:
            views.setdefault(row["broker_name"], []).append(row)
    return views


def _reference_view(memberships: Iterable[Row], brokers: set[str]) -> tuple[str | None, list[Row]]:
    views = _views(memberships)
    known = sorted(views, key=lambda name: (name not in brokers, -len(views[name]), name))
    return (known[0], views[known[0]]) if known else (None, [])


def _client(row: Row) -> Client:
    return Client(
        row["client_id"],
        row["client_addr"],
        None if row["topics"] is None else tuple(row["topics"]),
        row["strategy"],
        parse_client_version(row["client_version"]) if row["client_version"] else None,
    )


def _notes(
    queues: list[Row], memberships: list[Row], broker_name: str | None, is_reported: bool, group: Group
) -> Iterable[str]:
    views = _views(memberships)
    ids = {name: sorted(row["client_id"] for row in view) for name, view in views.items()}
    others = sorted(name for name in ids if name != broker_name and ids[name] != ids[broker_name or ""])
    if others:
        yield (
            f"The brokers list different members. This result uses {broker_name}'s list "
            f"({len(views[broker_name or ''])}); "
            + ", ".join(f"{name} lists {len(views[name])}" for name in others)
            + "."
        )
    if not is_reported and group.clients:
        yield f"No client has reported its strategy; {group.strategy} is assumed."
    if all(row["verdict"] == "NOT_JUDGED" for row in queues):
        yield (
            "The verdict of these queues is NOT_JUDGED: broadcasting, POP or assign() replaces a known allocation "
            "strategy, so the result may differ from what the clients do."
        )
