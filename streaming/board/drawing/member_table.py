"""The table of a group's members: ClientId, address, SDK, and the marks of twins."""

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.counts import counted
from streaming.board.drawing.verdicts import version_words
from streaming.board.queries.group import Channel, Group
from streaming.board.queries.queue_matrix import Client, clients_of

MOST_MEMBERS = 30


@dataclass(frozen=True)
class Member:
    """A client with its channels."""

    client: Client
    channels: tuple[Channel, ...]


def members_of(channels: Sequence[Channel]) -> list[Member]:
    """Return the members sorted by ClientId, as allocation strategies sort them; twins are separate."""
    by_place: dict[tuple[str, str], list[Channel]] = {}
    for channel in channels:
        by_place.setdefault((channel.client_id, channel.client_addr), []).append(channel)
    return [
        Member(client, tuple(one for addr in client.addrs for one in by_place.get((client.client_id, addr), ())))
        for client in clients_of(channels)
    ]


def member_table(group: Group, twins: Collection[str], now_ms: int) -> list[Component]:
    """Return the table: twins first, then clients with several connections at a broker, then by ClientId."""
    if not group.channels:
        return [el.empty("No broker lists a member.")]
    members = sorted(
        members_of(group.channels), key=lambda one: (one.client.client_id not in twins, not one.client.place)
    )
    shown = members[:MOST_MEMBERS]
    rows = [_row(member, member.client.client_id in twins, now_ms) for member in shown]
    columns = ["ClientId", "Address", "SDK", "Strategy", "Topics", "Listed by", "Listed since"]
    table = el.table("members", "Members", columns, rows)
    if len(shown) == len(members):
        return [table]
    line = shlex.join(
        ["balancewatch", "members", "--current", "--group", group.consumer_group, "--cluster", group.cluster]
    )
    return [table, el.empty(f"{len(members) - len(shown):,} more: ", el.code(line))]


def describe_members(group: Group) -> str:
    """Return `3 clients`, or `30 of 40 clients` if the table shows only a part."""
    number = len(members_of(group.channels))
    shown = f"{MOST_MEMBERS} of " if number > MOST_MEMBERS else ""
    return f"{shown}{counted(number, 'client')}" if number else ""


def _row(member: Member, is_twin: bool, now_ms: int) -> el.Row:
    client, channels = member.client, member.channels
    name: list[el.Child] = [el.code(client.client_id)]
    if is_twin:
        name.append(el.mark("‖", "TWIN", "twin"))
    elif client.place:
        name.append(el.mark("‖", "several connections", "muted"))
    return el.Row(
        client.key,
        [
            name,
            ", ".join(client.addrs),
            version_words(_first(one.language for one in channels), _first(one.client_version for one in channels)),
            _first(one.strategy for one in channels) or "unknown",
            ", ".join(sorted({topic for one in channels for topic in one.topics})) or "none",
            ", ".join(sorted({one.broker_name for one in channels})),
            el.moment(min(one.joined_ms for one in channels), now_ms),
        ],
        "row-twin" if is_twin else "",
    )


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value), None)
