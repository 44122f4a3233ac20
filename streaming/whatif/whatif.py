"""The initial state of `whatif`: the newest rows of the tables, or a JSON file."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict

from conf.location import Location
from schemas.tables import ASSIGNMENTS, MEMBERSHIPS
from streaming.store.store import History
from streaming.system.known_error import BalancewatchError
from streaming.text.suggestions import suggest
from udfs.rocketmq.allocation import VIRTUAL_NODES
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import parse_client_version
from udfs.whatif.group import Client, Group

PRESENT = ("JOINED", "CHANGED")

Row = dict[str, Any]


class UnknownGroupError(BalancewatchError):
    """The tables have no such group, topic or cluster. The message names the nearest."""


def read_group(
    warehouse: Location, consumer_group: str, topic: str, cluster: str | None, default_strategy: str
) -> tuple[Group, list[str]]:
    """Return the queues and members by the newest rows of `assignments` and `memberships`, and limits of the outcome.

    Member lists of brokers are never merged: the list of the topic's broker with most members counts, the first by name
    among equals. Raises UnknownGroupError where the group or topic does not exist, ValueError where several clusters
    have the group, and WarehouseError.
    """
    cluster, queues, views = _read_rows(History(warehouse, [ASSIGNMENTS, MEMBERSHIPS]), consumer_group, topic, cluster)
    brokers = {row["broker_name"] for row in queues}
    broker_name = min(views, key=lambda name: (name not in brokers, -len(views[name]), name), default="")
    members = views.get(broker_name, [])
    reported = [row["strategy"] for row in members if row["strategy"]]
    group = Group(
        cluster=cluster,
        consumer_group=consumer_group,
        topic=topic,
        strategy=min(set(reported), key=lambda name: (-reported.count(name), name), default=default_strategy),
        queues=tuple(sorted(MessageQueue(topic, row["broker_name"], row["queue_id"]) for row in queues)),
        clients=tuple(
            Client(
                row["client_id"],
                row["client_addr"],
                None if row["topics"] is None else tuple(row["topics"]),
                row["strategy"],
                parse_client_version(row["client_version"]) if row["client_version"] else None,
            )
            for row in members
        ),
    )
    notes = []
    ids = {name: sorted(row["client_id"] for row in view) for name, view in views.items()}
    if others := [f"{name} lists {len(ids[name])}" for name in sorted(ids) if ids[name] != ids[broker_name]]:
        notes.append(
            f"The brokers list different members. This result uses {broker_name}'s list ({len(members)}); "
            f"{', '.join(others)}."
        )
    if members and not reported:
        notes.append(f"No client has reported its strategy; {group.strategy} is assumed.")
    if all(row["verdict"] == "NOT_JUDGED" for row in queues):
        notes.append(
            "The verdict of these queues is NOT_JUDGED: broadcasting, POP or assign() replaces a known allocation "
            "strategy, so the result may differ from what the clients do."
        )
    return group, notes


def _read_rows(
    history: History, consumer_group: str, topic: str, cluster: str | None
) -> tuple[str, list[Row], dict[str, list[Row]]]:
    """Return the group's cluster, the rows of the topic's queues, and the members by the broker that lists them."""
    asked = {"group": consumer_group}
    assignments = history.rows("FROM assignments_now WHERE consumer_group = $group", asked)
    memberships = history.rows("FROM memberships_now WHERE consumer_group = $group", asked)
    clusters = sorted({row["cluster"] for row in (*assignments, *memberships)})
    if not clusters:
        known = history.rows("SELECT consumer_group FROM assignments UNION SELECT consumer_group FROM memberships")
        nearest = suggest(consumer_group, [row["consumer_group"] for row in known])
        raise UnknownGroupError(f"--group {consumer_group!r} does not exist{nearest}")
    if cluster is not None and cluster not in clusters:
        raise UnknownGroupError(f"--cluster {cluster!r} has no group {consumer_group}; it is in {', '.join(clusters)}")
    if cluster is None and len(clusters) > 1:
        raise ValueError(
            f"group {consumer_group} is in several clusters; choose one with --cluster: {', '.join(clusters)}"
        )
    cluster = clusters[0] if cluster is None else cluster
    by_topic: dict[str, list[Row]] = {}
    for row in assignments:
        if row["cluster"] == cluster:
            by_topic.setdefault(row["topic"], []).append(row)
    if topic not in by_topic:
        raise UnknownGroupError(
            f"--topic {topic!r}: group {consumer_group} of cluster {cluster} has no queue of it"
            f"{suggest(topic, by_topic)}"
        )
    views: dict[str, list[Row]] = {}
    for row in memberships:
        if row["cluster"] == cluster and row["change"] in PRESENT:
            views.setdefault(row["broker_name"], []).append(row)
    return cluster, by_topic[topic], views


Name = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
QueueName = Annotated[str, msgspec.Meta(pattern=r"^.+:[0-9]+$")]


class _Spec(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    pass


class ClientSpec(_Spec, kw_only=True):
    """One channel; fields as in udfs.whatif.group.Client."""

    client_id: Name
    client_addr: str | None = None
    topics: tuple[str, ...] | None = None
    strategy: str | None = None
    client_version: str | None = None
    room: str | None = None
    config_queues: tuple[QueueName, ...] | None = None


class StateSpec(_Spec, kw_only=True):
    """One topic of one group.

    `queues` maps a broker to its readQueueNums, or to the ids of a static topic; `broker_rooms` a broker to its machine
    room.
    """

    cluster: str = ""
    consumer_group: Name
    topic: Name
    strategy: str = "AVG"
    consumer_idcs: tuple[str, ...] | None = None
    virtual_nodes: Count = VIRTUAL_NODES
    queues: dict[Name, Count | list[Count]]
    broker_rooms: dict[Name, str] = {}
    clients: list[ClientSpec]


def read_file(path: Path) -> Group:
    """Return the state in a file. Raises ValueError for an invalid file."""
    try:
        spec = msgspec.json.decode(path.read_bytes(), type=StateSpec)
    except (OSError, msgspec.DecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"--file {path}: {reason}; `balancewatch whatif --save FILE` writes a valid one") from None
    queues = {
        MessageQueue(spec.topic, broker_name, queue_id)
        for broker_name, ids in spec.queues.items()
        for queue_id in (range(ids) if isinstance(ids, int) else ids)
    }
    clients = []
    for client in spec.clients:
        version = parse_client_version(client.client_version) if client.client_version else None
        clients.append(Client(**{**asdict(client), "client_version": version}))
    return Group(**{**asdict(spec), "queues": tuple(sorted(queues)), "clients": tuple(clients)})


def save_file(path: Path, group: Group) -> None:
    """Write the state to a new file. Raises ValueError where the file exists or cannot be written."""
    queues: dict[str, int | list[int]] = {}
    for name in group.broker_names():
        ids = sorted(mq.queue_id for mq in group.queues if mq.broker_name == name)
        queues[name] = len(ids) if ids == list(range(len(ids))) else ids
    clients = []
    for _, client in group.labelled():
        version = ".".join(map(str, client.client_version)) if client.client_version else None
        clients.append(ClientSpec(**{**vars(client), "client_version": version}))
    spec = StateSpec(**{**vars(group), "queues": queues, "clients": clients})
    try:
        with path.open("x") as file:
            file.write(msgspec.json.format(msgspec.json.encode(spec), indent=2).decode() + "\n")
    except OSError as error:
        raise ValueError(f"--save {path}: {error.strerror}; name another file") from None
