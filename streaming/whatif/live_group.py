"""One topic of one consumer group as the Delta tables know it now: its queues and one broker's list of members."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow.compute as pc

from conf.location import Location
from schemas.tables import ASSIGNMENTS, MEMBERSHIPS
from streaming.warehouse.readable_rows import Row, read_table
from streaming.whatif.whatif import WhatIfError
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import parse_client_version
from udfs.whatif.group import Client, Group

TABLES = (ASSIGNMENTS, MEMBERSHIPS)
PRESENT = ("JOINED", "CHANGED")
MOST_NAMED = 12


@dataclass(frozen=True)
class LiveGroup:
    """`broker_name` is whose list of members it is; `notes` say what is to be known when reading the outcome."""

    group: Group
    broker_name: str | None
    notes: tuple[str, ...]


def read_group(
    warehouse: Location, consumer_group: str, topic: str, cluster: str | None, default_strategy: str
) -> LiveGroup:
    """The queues of the newest `assignments` rows, the members of the newest `memberships` rows.

    Brokers' lists are never merged: of the topic's brokers the one that lists most members is taken, by name among
    equals. Raises WhatIfError, naming what there is, when the group or the topic is unknown or in several clusters,
    and NotWrittenError when there are no tables.
    """
    of_group = pc.field("consumer_group") == consumer_group
    assignments, memberships = (read_table(warehouse, table, of_group, newest=True) for table in TABLES)
    clusters = sorted({row["cluster"] for row in (*assignments, *memberships)})
    if not clusters:
        known = {row["consumer_group"] for table in TABLES for row in read_table(warehouse, table)}
        raise WhatIfError(f"--group {consumer_group} is not known; {_name('there is', known, 'no group yet')}")
    cluster = _choose_cluster(cluster, clusters, consumer_group)
    assignments = [row for row in assignments if row["cluster"] == cluster]
    memberships = [row for row in memberships if row["cluster"] == cluster]
    queues = [row for row in assignments if row["topic"] == topic]
    if not queues:
        topics = {row["topic"] for row in assignments}
        raise WhatIfError(
            f"--topic {topic}: group {consumer_group} of cluster {cluster} has no queue of it; "
            + _name("its topics are", topics, "it has no topic yet")
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
        raise WhatIfError(f"--cluster {asked} has no group {consumer_group}; it is in {', '.join(clusters)}")
    if asked is None and len(clusters) > 1:
        raise WhatIfError(
            f"group {consumer_group} is in several clusters; give --cluster, one of {', '.join(clusters)}"
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
            f"The brokers list different members: this is the list of {broker_name} ({len(views[broker_name or ''])}); "
            + ", ".join(f"{name} has {len(views[name])}" for name in others)
            + "."
        )
    if not is_reported and group.clients:
        yield f"No client has told its strategy: {group.strategy} is assumed."
    if all(row["verdict"] == "NOT_JUDGED" for row in queues):
        yield (
            "The queues' verdict is NOT_JUDGED: clients do not share them out by a strategy that is known here "
            "(broadcasting, POP, assign()), so what follows may not be what they do."
        )


def _name(there_are: str, known: Iterable[str], none: str) -> str:
    names = sorted(known)
    if not names:
        return none
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{there_are} {', '.join(names[:MOST_NAMED])}{more}"
