"""The initial state of `whatif` as a JSON file: reading and writing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import pyarrow.compute as pc

from conf.location import Location
from schemas.tables import ASSIGNMENTS, MEMBERSHIPS
from streaming.system.known_error import BalancewatchError
from streaming.text.suggestions import suggest
from streaming.warehouse.readable_rows import Row, read_table
from udfs.rocketmq.allocation import VIRTUAL_NODES
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


class WhatIfError(BalancewatchError):
    """The state is invalid. The message names what to change."""


class UnknownGroupError(BalancewatchError):
    """The tables have no such group, topic or cluster. The message names the nearest."""


Name = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
QueueName = Annotated[str, msgspec.Meta(pattern=r"^.+:[0-9]+$")]


class _Spec(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    pass


class QueueSpec(_Spec, kw_only=True):
    """Readable queues of one broker: 0 to read_queue_nums - 1, or the ids of a static topic."""

    broker_name: Name
    read_queue_nums: Count | None = None
    queue_ids: list[Count] | None = None
    room: str | None = None


class ClientSpec(_Spec, kw_only=True):
    """One channel; fields as in udfs.whatif.group.Client."""

    client_id: Name
    client_addr: str | None = None
    topics: list[str] | None = None
    strategy: str | None = None
    client_version: str | None = None
    room: str | None = None
    config_queues: list[QueueName] | None = None


class StateSpec(_Spec, kw_only=True):
    """One topic of one group."""

    cluster: str = ""
    consumer_group: Name
    topic: Name
    strategy: str = "AVG"
    consumer_idcs: list[str] | None = None
    virtual_nodes: Count = VIRTUAL_NODES
    queues: list[QueueSpec]
    clients: list[ClientSpec]


def read_file(path: Path) -> Group:
    """Return the state in a file. Raises WhatIfError for an invalid file."""
    try:
        spec = msgspec.json.decode(path.read_bytes(), type=StateSpec)
    except (OSError, msgspec.DecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise WhatIfError(f"--file {path}: {reason}; `balancewatch whatif --save FILE` writes a valid one") from None
    return to_group(spec)


def save_file(path: Path, group: Group) -> None:
    """Write the state to a new file. Raises WhatIfError where the file exists or cannot be written."""
    try:
        with path.open("x") as file:
            file.write(to_json(to_spec(group)))
    except OSError as error:
        raise WhatIfError(f"--save {path}: {error.strerror}; name another file") from None


def to_group(spec: StateSpec) -> Group:
    return Group(
        cluster=spec.cluster,
        consumer_group=spec.consumer_group,
        topic=spec.topic,
        strategy=spec.strategy,
        queues=tuple(sorted({mq for queues in spec.queues for mq in _message_queues(spec.topic, queues)})),
        clients=tuple(
            Client(
                client.client_id,
                client.client_addr,
                _tuple(client.topics),
                client.strategy,
                parse_client_version(client.client_version) if client.client_version else None,
                client.room,
                _tuple(client.config_queues),
            )
            for client in spec.clients
        ),
        broker_rooms={queues.broker_name: queues.room for queues in spec.queues if queues.room},
        consumer_idcs=_tuple(spec.consumer_idcs),
        virtual_nodes=spec.virtual_nodes,
    )


def _message_queues(topic: str, queues: QueueSpec) -> list[MessageQueue]:
    ids = range(queues.read_queue_nums or 0) if queues.queue_ids is None else queues.queue_ids
    return [MessageQueue(topic, queues.broker_name, queue_id) for queue_id in ids]


def to_spec(group: Group) -> StateSpec:
    """Return the group in the file's form, the inverse of `to_group`."""
    return StateSpec(
        cluster=group.cluster,
        consumer_group=group.consumer_group,
        topic=group.topic,
        strategy=group.strategy,
        queues=[_queue_spec(group, name) for name in group.broker_names()],
        clients=[
            ClientSpec(
                client_id=client.client_id,
                client_addr=client.client_addr,
                topics=_list(client.topics),
                strategy=client.strategy,
                client_version=".".join(map(str, client.client_version)) if client.client_version else None,
                room=client.room,
                config_queues=_list(client.config_queues),
            )
            for _, client in group.labelled()
        ],
        consumer_idcs=_list(group.consumer_idcs),
        virtual_nodes=group.virtual_nodes,
    )


def to_json(spec: StateSpec) -> str:
    return msgspec.json.format(msgspec.json.encode(spec), indent=2).decode() + "\n"


def _queue_spec(group: Group, broker_name: str) -> QueueSpec:
    ids = sorted(mq.queue_id for mq in group.queues if mq.broker_name == broker_name)
    room = group.broker_rooms.get(broker_name)
    if ids == list(range(len(ids))):
        return QueueSpec(broker_name=broker_name, read_queue_nums=len(ids), room=room)
    return QueueSpec(broker_name=broker_name, queue_ids=ids, room=room)


def _tuple(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)
