"""The state of a consumer group and one topic, and the changes that `whatif` applies to it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count

from udfs.rocketmq.allocation import VIRTUAL_NODES
from udfs.rocketmq.model import MessageQueue, java_order


@dataclass(frozen=True)
class Client:
    """One channel of the group.

    topics            its subscriptions; None: unknown, counts as subscribed
    strategy          AllocateMessageQueueStrategy.getName(); None: the group's
    client_version    its release, such as 4.9.8 or V4_9_8; None: the newest
    room              its machine room, for the nearby strategies
    config_queues     its queues under CONFIG, as `broker:queue_id`
    """

    client_id: str
    client_addr: str | None = None
    topics: tuple[str, ...] | None = None
    strategy: str | None = None
    client_version: str | None = None
    room: str | None = None
    config_queues: tuple[str, ...] | None = None

    def subscribes(self, topic: str) -> bool:
        return self.topics is None or topic in self.topics

    def names(self) -> tuple[str, ...]:
        addr = self.client_addr
        return (self.client_id, addr, addr.rpartition(":")[0]) if addr else (self.client_id,)


@dataclass(frozen=True)
class Group:
    """One topic's readable queues and the clients that share them, as one broker lists them.

    The last fields are options of single strategies: the machine rooms of brokers by name, MACHINE_ROOM's
    consumer_idcs and CONSISTENT_HASH's virtual_nodes.
    """

    cluster: str
    consumer_group: str
    topic: str
    strategy: str
    queues: tuple[MessageQueue, ...]
    clients: tuple[Client, ...]
    broker_rooms: Mapping[str, str] = field(default_factory=dict)
    consumer_idcs: tuple[str, ...] | None = None
    virtual_nodes: int = VIRTUAL_NODES

    def broker_names(self) -> list[str]:
        return sorted({mq.broker_name for mq in self.queues})

    def labelled(self) -> list[tuple[str, Client]]:
        """Return every channel by its ClientId, in the order of cid_all; the later ones of an id as `ID (2)`, ..."""
        labelled: dict[str, Client] = {}
        for client in sorted(
            self.clients, key=lambda client: (java_order(client.client_id), client.client_addr or "~")
        ):
            others = (f"{client.client_id} ({nth})" for nth in count(2))
            labels = chain([client.client_id], others)
            labelled[next(label for label in labels if label not in labelled)] = client
        return list(labelled.items())


@dataclass(frozen=True)
class Changes:
    """The changes, in the order in which they are applied.

    A client to remove is named by its ClientId, which removes all channels with it, or by its address or host. A twin
    is another channel with an existing ClientId. `queues` maps a broker to its number of readable queues, `strategies`
    a ClientId to a strategy; "" is every broker, and the group.
    """

    remove_clients: tuple[str, ...] = ()
    add_clients: tuple[str, ...] = ()
    twins: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    remove_brokers: tuple[str, ...] = ()
    add_brokers: Mapping[str, int | None] = field(default_factory=dict)
    queues: Mapping[str, int] = field(default_factory=dict)
    strategies: Mapping[str, str] = field(default_factory=dict)
    consumer_idcs: tuple[str, ...] = ()
    virtual_nodes: int | None = None
    client_version: str | None = None


def change(group: Group, changes: Changes) -> Group:
    """Return the group after `changes`. Raises ValueError for an unknown client or broker, with the known ones."""
    changed = replace(
        group,
        clients=tuple(_change_clients(group, changes)),
        queues=tuple(_change_queues(group, changes)),
        strategy=changes.strategies.get("", group.strategy),
        consumer_idcs=changes.consumer_idcs or group.consumer_idcs,
        virtual_nodes=group.virtual_nodes if changes.virtual_nodes is None else changes.virtual_nodes,
    )
    if not changed.queues:
        raise ValueError(f"topic {group.topic} has no queue after this change; clients would keep their present queues")
    return changed


def _change_clients(group: Group, changes: Changes) -> Iterator[Client]:
    clients = list(group.clients)
    for name in changes.remove_clients:
        rest = [client for client in clients if name not in client.names()]
        if len(rest) == len(clients):
            raise ValueError(_unknown("client", name, [client.client_id for client in group.clients], group))
        clients = rest
    for client_id in changes.add_clients:
        if any(client.client_id == client_id for client in clients):
            raise ValueError(f"client {client_id} already exists; use --twin for a second client with its ClientId")
        clients.append(Client(client_id, topics=(group.topic,)))
    for client_id in (*changes.twins, *changes.unsubscribe, *filter(None, changes.strategies)):
        if all(client.client_id != client_id for client in clients):
            raise ValueError(_unknown("client", client_id, [client.client_id for client in clients], group))
    for client_id in changes.twins:
        first = next(client for client in clients if client.client_id == client_id)
        clients.append(replace(first, client_addr=None))
    for client in clients:
        own_strategy = None if "" in changes.strategies else client.strategy
        yield replace(
            client,
            topics=() if client.client_id in changes.unsubscribe else client.topics,
            strategy=changes.strategies.get(client.client_id, own_strategy),
            client_version=changes.client_version or client.client_version,
        )


def _change_queues(group: Group, changes: Changes) -> list[MessageQueue]:
    ids: dict[str, list[int]] = {}
    for mq in sorted(group.queues):
        ids.setdefault(mq.broker_name, []).append(mq.queue_id)
    most = max(map(len, ids.values()), default=4)
    for broker_name in changes.remove_brokers:
        if broker_name not in ids:
            raise ValueError(_unknown("broker", broker_name, list(ids), group))
        del ids[broker_name]
    for broker_name, number in changes.add_brokers.items():
        if broker_name in ids:
            raise ValueError(f"broker {broker_name} already has queues of topic {group.topic}")
        ids[broker_name] = list(range(most if number is None else number))
    for broker_name, number in changes.queues.items():
        if broker_name and broker_name not in ids:
            raise ValueError(_unknown("broker", broker_name, list(ids), group))
        for name in [broker_name] if broker_name else list(ids):
            ids[name] = list(range(number))
    return [MessageQueue(group.topic, name, queue_id) for name in sorted(ids) for queue_id in ids[name]]


def _unknown(noun: str, name: str, known: Collection[str], group: Group) -> str:
    there = ", ".join(sorted(set(known), key=java_order)) or f"no {noun}"
    return f"group {group.consumer_group} has no {noun} {name} on topic {group.topic}; it has {there}"
