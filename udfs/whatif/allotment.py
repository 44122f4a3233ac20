"""The computed shares of a group: the clients that take each queue, and why some queues have no client."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from udfs.groups.plan import DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, MIXED_STRATEGY, STRATEGY_GAP, queue_name
from udfs.rocketmq.allocation import CONFIG, CONSISTENT_HASH, MACHINE_ROOM, NEARBY, POSITIONAL, allocate_all
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import ClientVersion, parse_client_version
from udfs.whatif.group import Client, Group

GROUP_OFFLINE = "group_offline"

Method = tuple[str, ClientVersion]
"""The strategy of a client, and its release where that makes a difference."""


class Gap(NamedTuple):
    """The reason why a queue has no client. `client_id` holds the slot that the queue falls into, if any."""

    cause: str
    client_id: str | None = None


@dataclass(frozen=True)
class Allotment:
    """One group's queues and clients, by `broker:queue_id` and by label (Group.labelled), both in their order.

    takers    queue → the labels of the clients that take it; without any it starves, and `gaps` has the reason
    idle      label → why this client has no queue
    """

    takers: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, tuple[str, ...]]
    gaps: Mapping[str, Gap]
    idle: Mapping[str, str]

    def doubled(self) -> list[str]:
        return [name for name, takers in self.takers.items() if len(takers) > 1]


def allot(group: Group) -> Allotment:
    """Return every client's share, as RebalanceImpl.rebalanceByTopic computes it from one list of the group.

    A member that does not subscribe to the topic has a share in the computation and pulls nothing. Raises ValueError
    for a strategy that RocketMQ does not have or that lacks an option.
    """
    labelled = group.labelled()
    clients = [client for _, client in labelled]
    methods = {label: _method(group, client) for label, client in labelled}
    _refuse_without_options(group, methods.values())
    by_method = {method: _shares(group, clients, method) for method in set(methods.values()) if method[0] != CONFIG}
    shares: dict[str, tuple[str, ...]] = {}
    idle: dict[str, str] = {}
    takers: dict[str, list[str]] = {queue_name(mq): [] for mq in sorted(group.queues)}
    for label, client in labelled:
        method = methods[label]
        if method[0] != CONFIG:
            share = tuple(map(queue_name, by_method[method].get(client.client_id, [])))
        elif client.config_queues is not None:
            share = client.config_queues
        else:
            raise ValueError(
                f"only client {client.client_id} knows the queues that CONFIG gives it; write the state with --save, "
                "and add config_queues to the client there"
            )
        shares[label] = share if client.subscribes(group.topic) else ()
        if not client.subscribes(group.topic):
            idle[label] = f"does not subscribe to {group.topic}"
        elif not share:
            is_crowded = method[0] in POSITIONAL and len(clients) > len(group.queues)
            idle[label] = "there are more clients than queues" if is_crowded else "its strategy gives it none"
        for name in dict.fromkeys(shares[label]):
            if name in takers:
                takers[name].append(label)
    return Allotment(
        takers={name: tuple(labels) for name, labels in takers.items()},
        shares=shares,
        gaps=_gaps(group, clients, Counter(methods.values()), [name for name, labels in takers.items() if not labels]),
        idle=idle,
    )


def _method(group: Group, client: Client) -> Method:
    strategy = client.strategy or group.strategy
    return strategy, parse_client_version(client.client_version or "") if "MACHINE_ROOM" in strategy else (0, 0, 0)


def _refuse_without_options(group: Group, methods: Iterable[Method]) -> None:
    strategies = {strategy for strategy, _ in methods}
    for strategy in sorted(strategies):
        if strategy.startswith(NEARBY):
            subjects = {f"broker {name}": group.broker_rooms.get(name) for name in group.broker_names()}
            subjects |= {f"client {client.client_id}": client.room for client in group.clients}
            lacking = [subject for subject, room in subjects.items() if not room]
            if lacking:
                raise ValueError(f"{strategy} needs the machine room of {', '.join(lacking)}; give each its `room`")
        if strategy.endswith(MACHINE_ROOM) and group.consumer_idcs is None:
            raise ValueError(f"{strategy} needs the list of consumed machine rooms; give consumer_idcs")


def _shares(group: Group, clients: Sequence[Client], method: Method) -> dict[str, list[MessageQueue]]:
    rooms = {client.client_id: client.room for client in reversed(clients)}
    strategy, client_version = method
    return allocate_all(
        strategy,
        group.consumer_group,
        sorted(group.queues),
        [client.client_id for client in clients],
        client_version=client_version,
        consumer_idcs=group.consumer_idcs,
        virtual_nodes=group.virtual_nodes,
        broker_room=lambda mq: group.broker_rooms.get(mq.broker_name),
        client_room=rooms.get,
    )


def _gaps(group: Group, clients: Sequence[Client], methods: Counter[Method], starved: Sequence[str]) -> dict[str, Gap]:
    if not clients:
        return dict.fromkeys(starved, Gap(GROUP_OFFLINE))
    if not starved:
        return {}
    usual = min(methods, key=lambda method: (-methods[method], method))
    slot_of = _slots(group, clients, usual)
    ids = [client.client_id for client in clients]
    gaps = {}
    for name in starved:
        slot = slot_of.get(name)
        if slot is None:
            gaps[name] = Gap(MIXED_STRATEGY if len(methods) > 1 else STRATEGY_GAP)
        elif ids.index(ids[slot]) != slot:
            gaps[name] = Gap(DUPLICATE_CLIENT_ID, ids[slot])
        elif not clients[slot].subscribes(group.topic):
            gaps[name] = Gap(MEMBER_NOT_SUBSCRIBED, ids[slot])
        else:
            gaps[name] = Gap(MIXED_STRATEGY, ids[slot])
    return gaps


def _slots(group: Group, clients: Sequence[Client], method: Method) -> dict[str, int]:
    """Return the slot of each queue: a client's place in cid_all, as if no ClientId were listed twice.

    A strategy that hashes ClientIds has no slots; there the first holder of the id stands for all.
    """
    strategy = method[0]
    if strategy.endswith(CONFIG):
        return {}
    if strategy.endswith(CONSISTENT_HASH):
        first = {client.client_id: place for place, client in reversed(list(enumerate(clients)))}
        shares = {first[cid]: share for cid, share in _shares(group, clients, method).items()}
    else:
        numbered = [replace(client, client_id=f"{place:06}") for place, client in enumerate(clients)]
        shares = {int(slot): share for slot, share in _shares(group, numbered, method).items()}
    return {queue_name(mq): slot for slot, share in shares.items() for mq in share}
