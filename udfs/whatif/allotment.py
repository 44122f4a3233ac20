"""Who takes each queue of a group on paper, why some queues are nobody's, and what a change does to both."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from udfs.groups.plan import DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, MIXED_STRATEGY, STRATEGY_GAP, queue_name
from udfs.rocketmq.allocation import CONFIG, CONSISTENT_HASH, MACHINE_ROOM, NEARBY, POSITIONAL, allocate_all
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import ClientVersion
from udfs.whatif.group import Client, Group, release

GROUP_OFFLINE = "group_offline"

Method = tuple[str, ClientVersion]
"""What a client allocates by: its strategy, and its release where that makes a difference."""


@dataclass(frozen=True)
class Gap:
    """Why a queue is nobody's. `client_id` is whose slot it fell into, where it fell into one."""

    cause: str
    client_id: str | None = None


@dataclass(frozen=True)
class Allotment:
    """One group's queues and clients, by `broker:queue_id` and by label (Group.labelled), both in their order.

    takers    queue → the labels of those who take it; none of them: it starves, and `gaps` has the reason
    idle      label → why this client has no queue
    """

    takers: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, tuple[str, ...]]
    gaps: Mapping[str, Gap]
    idle: Mapping[str, str]

    def starved(self) -> list[str]:
        return [name for name, takers in self.takers.items() if not takers]

    def doubled(self) -> list[str]:
        return [name for name, takers in self.takers.items() if len(takers) > 1]


def allot(group: Group) -> Allotment:
    """Every client's share, as RebalanceImpl.rebalanceByTopic computes it from one list of the group.

    A member that does not subscribe the topic takes its share on paper and pulls nothing. Raises ValueError for a
    strategy that RocketMQ does not bring or that lacks an option.
    """
    labelled = group.labelled()
    clients = [client for _, client in labelled]
    methods = {label: _method(group, client) for label, client in labelled}
    _refuse_without_options(group, methods.values())
    by_method = {method: _shares(group, clients, method) for method in set(methods.values()) if method[0] != CONFIG}
    shares: dict[str, tuple[str, ...]] = {}
    for label, client in labelled:
        if methods[label][0] == CONFIG:
            share = _configured(group, client)
        else:
            share = tuple(map(queue_name, by_method[methods[label]].get(client.client_id, [])))
        shares[label] = share if client.subscribes(group.topic) else ()
    takers: dict[str, list[str]] = {queue_name(mq): [] for mq in sorted(group.queues)}
    for label, share in shares.items():
        for name in dict.fromkeys(share):
            if name in takers:
                takers[name].append(label)
    return Allotment(
        takers={name: tuple(labels) for name, labels in takers.items()},
        shares=shares,
        gaps=_gaps(group, clients, Counter(methods.values()), [name for name, labels in takers.items() if not labels]),
        idle={label: _why_idle(group, client) for label, client in labelled if not shares[label]},
    )


def _method(group: Group, client: Client) -> Method:
    strategy = client.strategy or group.strategy
    return strategy, release(client) if "MACHINE_ROOM" in strategy else (0, 0, 0)


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


def _options(group: Group, client_rooms: Mapping[str, str | None], method: Method) -> dict[str, object]:
    return {
        "client_version": method[1],
        "consumer_idcs": group.consumer_idcs,
        "virtual_nodes": group.virtual_nodes,
        "broker_room": lambda mq: group.broker_rooms.get(mq.broker_name),
        "client_room": client_rooms.get,
    }


def _shares(group: Group, clients: Sequence[Client], method: Method) -> dict[str, list[MessageQueue]]:
    rooms = {client.client_id: client.room for client in reversed(clients)}
    cid_all = [client.client_id for client in clients]
    return allocate_all(
        method[0], group.consumer_group, sorted(group.queues), cid_all, **_options(group, rooms, method)
    )


def _configured(group: Group, client: Client) -> tuple[str, ...]:
    if client.config_queues is None:
        raise ValueError(
            f"only client {client.client_id} knows the queues that CONFIG gives it; write the state with --save, and "
            "add config_queues to the client there"
        )
    return client.config_queues


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
    """Queue to the slot it falls into: a client's place in cid_all, as if no ClientId were listed twice.

    A strategy that hashes ClientIds knows no slots; there the first holder of the id stands for all.
    """
    strategy = method[0]
    if strategy.endswith(CONFIG):
        return {}
    if strategy.endswith(CONSISTENT_HASH):
        first = {client.client_id: place for place, client in reversed(list(enumerate(clients)))}
        shares = {first[cid]: share for cid, share in _shares(group, clients, method).items()}
    else:
        rooms = {f"{place:06}": client.room for place, client in enumerate(clients)}
        slots = allocate_all(
            strategy, group.consumer_group, sorted(group.queues), list(rooms), **_options(group, rooms, method)
        )
        shares = {int(slot): share for slot, share in slots.items()}
    return {queue_name(mq): slot for slot, share in shares.items() for mq in share}


def _why_idle(group: Group, client: Client) -> str:
    if not client.subscribes(group.topic):
        return f"does not subscribe to {group.topic}"
    if _method(group, client)[0] in POSITIONAL and len(group.clients) > len(group.queues):
        return "there are more clients than queues"
    return "its strategy gives it none"
