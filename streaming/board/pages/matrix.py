"""A group's queues by its clients: one row per queue, one column per client or twin.

Columns are in the order of `cidAll`, the sorted ClientIds by which RocketMQ's strategies assign queues.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from streaming.board.pages.group_tables import Channel, Group, Queue
from streaming.board.words import CERTAIN_SINCE, RANK, VERDICTS, worst_first
from streaming.text.language import gettext, localize
from udfs.alerts.phrase import Phrase, Words, phrase
from udfs.alerts.prose import host_of
from udfs.groups.queue_state import DOUBLE_CONSUMED, NOT_JUDGED, OK, WRONG
from udfs.groups.verdict_reason import VERDICT_REASONS

MOST_COLUMNS = 16
"""Above this number of clients, only those that own or pull a queue of the page have a column."""


class Cell(Enum):
    """Relation of a client to a queue: the sign in the cell and its meaning."""

    OWNS = ("●", phrase("planned owner, consumes it"))
    ABSENT = ("○", phrase("planned owner, does not consume it"))
    TAKES = ("◆", phrase("consumes it without being the planned owner"))
    OWNS_TOO = ("●●", phrase("planned owner, consumes it together with another client"))
    TAKES_TOO = ("◆◆", phrase("consumes it together with the planned owner"))
    HANDED_OVER = ("◇", phrase("consumed it until recently (hand-over)"))
    ONE_OF = ("◐", phrase("planned owner; one client with this ClientId consumes it, unknown which"))
    PULLS = ("●", phrase("consumes it; no planned owner to compare with"))

    def __init__(self, sign: str, words: Phrase) -> None:
        self.sign, self.words = sign, words


@dataclass(frozen=True)
class Client:
    """A column: a ClientId, or one of several channels with it, by host or address (`place`)."""

    client_id: str
    place: str = ""
    addrs: tuple[str, ...] = ()
    is_member: bool = True

    @property
    def key(self) -> str:
        return f"{self.client_id} at {self.place}" if self.place else self.client_id

    @property
    def name(self) -> str:
        own = phrase("{client_id} at {place}", client_id=self.client_id, place=self.place)
        return localize(own) if self.place else self.client_id


@dataclass(frozen=True)
class Line:
    """A row: the queue and the cells of its clients, by the client's key."""

    queue: Queue
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class Matrix:
    """The lines of one page. `elsewhere` counts clients without a cell; `rest` are clients without a column."""

    clients: tuple[Client, ...]
    lines: tuple[Line, ...]
    elsewhere: int
    rest: tuple[str, ...]

    def signs(self) -> list[Cell]:
        """Return the cells that occur, for the legend."""
        found = {cell for line in self.lines for cell in line.cells.values()}
        return [cell for cell in Cell if cell in found]

    def meanings(self) -> dict[str, Words]:
        """Return the verdicts and reasons that occur with their meanings, for the legend."""
        verdicts = worst_first({line.queue.verdict for line in self.lines})
        meanings: dict[str, Words] = {verdict: VERDICTS[verdict].meaning for verdict in verdicts if verdict in VERDICTS}
        for reason in sorted({line.queue.reason for line in self.lines if line.queue.reason}):
            meanings[reason] = VERDICT_REASONS.get(reason, phrase("unknown to this release"))
        if any(verdict in WRONG for verdict in verdicts):
            meanings[gettext("certain since")] = CERTAIN_SINCE
        return meanings


def clients_of(channels: Iterable[Channel]) -> list[Client]:
    """Return the members as columns, sorted by ClientId.

    Channels of one ClientId are separate columns if a broker lists several: by host if each broker has one per host,
    else by address, since ports differ from broker to broker.
    """
    by_id: dict[str, list[Channel]] = {}
    for channel in channels:
        by_id.setdefault(channel.client_id, []).append(channel)
    clients: list[Client] = []
    for client_id, own in sorted(by_id.items()):
        by_broker: dict[str, list[str]] = {}
        for channel in own:
            by_broker.setdefault(channel.broker_name, []).append(channel.client_addr)
        addrs = tuple(sorted({channel.client_addr for channel in own}))
        if max(map(len, by_broker.values())) == 1:
            clients.append(Client(client_id, addrs=addrs))
        elif all(len({host_of(addr) for addr in listed}) == len(listed) for listed in by_broker.values()):
            hosts = sorted({host_of(addr) for addr in addrs})
            clients += [Client(client_id, host, tuple(a for a in addrs if host_of(a) == host)) for host in hosts]
        else:
            clients += [Client(client_id, addr, (addr,)) for addr in addrs]
    return clients


def count_verdicts(queues: Iterable[Queue]) -> Counter[str]:
    return Counter(queue.verdict for queue in queues)


def order_queues(queues: Iterable[Queue], order: str) -> list[Queue]:
    """Sort by `queue` (topic, broker and number) or by `worst` (verdict first)."""

    def place(queue: Queue) -> tuple[str, str, int]:
        return queue.topic, queue.broker_name, queue.queue_id

    if order == "queue":
        return sorted(queues, key=place)
    return sorted(queues, key=lambda queue: (RANK.get(queue.verdict, len(RANK)), *place(queue)))


def build_matrix(group: Group, queues: Sequence[Queue], most_columns: int = MOST_COLUMNS) -> Matrix:
    """Return the matrix of these queues, in their order. Clients that pull but are no members have columns too."""
    members = clients_of(group.channels)
    reader = _Reader(members, group.channels)
    lines = [Line(queue, reader.cells(queue)) for queue in queues]
    clients = [*members, *sorted(reader.strangers.values(), key=lambda client: client.key)]
    if len(clients) <= most_columns:
        return Matrix(tuple(clients), tuple(lines), 0, ())
    weight: Counter[str] = Counter()
    for line in lines:
        for key in line.cells:
            weight[key] += 1 if line.queue.verdict == OK else 1_000
    chosen = {key for key, _ in sorted(weight.items(), key=lambda item: (-item[1], item[0]))[:most_columns]}
    shown = tuple(client for client in clients if client.key in chosen)
    rest = tuple(client.key for client in clients if client.key in weight and client.key not in chosen)
    return Matrix(shown, tuple(lines), len(clients) - len(shown) - len(rest), rest)


class _Reader:
    def __init__(self, members: Sequence[Client], channels: Iterable[Channel]) -> None:
        self.strangers: dict[str, Client] = {}
        self._by_id: dict[str, list[Client]] = {}
        for client in members:
            self._by_id.setdefault(client.client_id, []).append(client)
        self._by_addr = {addr: client for client in members for addr in client.addrs}
        self._listed = {(channel.client_id, channel.broker_name, channel.client_addr) for channel in channels}

    def cells(self, queue: Queue) -> dict[str, Cell]:
        pulling: dict[str, bool] = {}
        for owner in queue.observed_owners:
            found = self._clients(owner, queue.broker_name)
            pulling |= {client.key: len(found) > 1 for client in found}
        planned = self._clients(queue.planned_owner, queue.broker_name) if queue.planned_owner else []
        owners = {client.key for client in planned}
        cells = {key: _cell(queue.verdict, key in owners, is_one_of) for key, is_one_of in pulling.items()}
        return cells | dict.fromkeys(owners - pulling.keys(), Cell.ABSENT)

    def _clients(self, owner: str, broker_name: str) -> list[Client]:
        """Return the columns of an owner in `observed_owners`: `client_id`, `client_id at address` or an address."""
        if clients := self._by_id.get(owner):
            listed = [c for c in clients if any((owner, broker_name, addr) in self._listed for addr in c.addrs)]
            return listed or clients  # the twins whose address this broker lists, else all of them
        client_id, _, addr = owner.rpartition(" at ")
        found = self._by_addr.get(addr)
        if found and (not client_id or found.client_id == client_id):
            return [found]
        stranger = Client(client_id, addr, (addr,), is_member=False) if client_id else Client(owner, is_member=False)
        return [self.strangers.setdefault(stranger.key, stranger)]


def _cell(verdict: str, is_planned: bool, is_one_of: bool) -> Cell:
    if verdict == NOT_JUDGED:
        return Cell.PULLS
    if verdict == DOUBLE_CONSUMED:
        return Cell.OWNS_TOO if is_planned else Cell.TAKES_TOO
    if is_one_of:
        return Cell.ONE_OF
    if is_planned:
        return Cell.OWNS
    return Cell.HANDED_OVER if verdict == OK else Cell.TAKES
