"""The initial state of `whatif` as a JSON file: reading, writing, and an example."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from streaming.system.known_error import BalancewatchError
from udfs.rocketmq.consistent_hash import VIRTUAL_NODES
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import parse_client_version
from udfs.whatif.group import Client, Group


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


def _example_client(host: str, port: int, strategy: str | None = None) -> ClientSpec:
    return ClientSpec(
        client_id=f"{host}@7",
        client_addr=f"{host}:{port}",
        topics=["orders"],
        strategy=strategy,
        client_version="4.9.8",
    )


EXAMPLE = StateSpec(
    cluster="demo",
    consumer_group="order-service",
    topic="orders",
    queues=[QueueSpec(broker_name=name, read_queue_nums=8) for name in ("broker-a", "broker-b")],
    clients=[
        _example_client("10.20.0.11", 49935),
        _example_client("10.20.0.12", 35653),
        _example_client("10.20.0.13", 40112, "AVG_BY_CIRCLE"),
    ],
)
"""Two clients allocate by the group's strategy, the third by another."""


def read_file(path: Path) -> Group:
    """Return the state in a file. Raises WhatIfError for an invalid file."""
    try:
        spec = msgspec.json.decode(path.read_bytes(), type=StateSpec)
    except (OSError, msgspec.DecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise WhatIfError(f"--file {path}: {reason}; `balancewatch whatif --example` prints a valid one") from None
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
