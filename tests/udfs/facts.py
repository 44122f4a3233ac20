"""Facts to feed the rules with: heartbeats, pulls, members, and a group that lives through them.

Times are seconds from an arbitrary start, for a test to be readable; the rules see milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from udfs.group import Outcome, tick
from udfs.hearing import Hearing
from udfs.membership import Member
from udfs.ownership import Puller
from udfs.route import QueueData, Route
from udfs.rules import Rules
from udfs.watch import GroupState

START_MS = 1_789_000_000_000
RULES = Rules()


def at(seconds: float) -> int:
    return START_MS + round(seconds * 1000)


@dataclass(frozen=True)
class Subscription:
    topic: str
    sub_string: str = "*"
    expression_type: str = "TAG"


@dataclass(frozen=True)
class ConsumerData:
    subscriptions: Sequence[Subscription] = (Subscription("orders"),)
    consumer_group: str = "order-service"
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    strategy: str | None = None
    client_rebalance: bool | None = None
    consume_orderly: bool | None = None


@dataclass(frozen=True)
class Heartbeat:
    client_id: str
    client_addr: str
    event_time_ms: int
    broker_name: str = "broker-a"
    language: str = "JAVA"
    client_version: str = "4.8.0"
    without_sub: bool | None = None


@dataclass(frozen=True)
class Pull:
    client_id: str | None
    client_addr: str | None
    queue_id: int
    event_time_ms: int
    broker_name: str = "broker-a"
    topic: str = "orders"
    commit_offset: int | None = None
    max_offset: int | None = None
    broker_id: int = 0
    pull_status: str | None = None
    suggest_broker_id: int | None = None


def subscribes(*topics: str, **told: object) -> ConsumerData:
    return ConsumerData(tuple(Subscription(topic) for topic in topics), **told)  # type: ignore[arg-type]  # by name


def member(client_id: str, client_addr: str = "", *, first: float = 0, last: float = 0, **told: object) -> Member:
    fields: dict[str, object] = {
        "client_id": client_id,
        "client_addr": client_addr or f"{client_id}:1",
        "language": "JAVA",
        "client_version": "4.8.0",
        "topics": ["orders"],
        "strategy": None,
        "is_judged": True,
        "first_heartbeat_ms": at(first),
        "last_heartbeat_ms": at(last),
    }
    return Member(**{**fields, **told})  # type: ignore[arg-type]  # fields by name


def puller(client_id: str | None, first: float, last: float, client_addr: str | None = None) -> Puller:
    return Puller(client_id, client_addr or f"{client_id}:1", at(first), at(last))


def route(queues: int = 8, *broker_names: str, perm: int = 6, write: int | None = None) -> Route:
    names = broker_names or ("broker-a",)
    return Route("orders", tuple(QueueData(name, queues, write or queues, perm) for name in names), START_MS)


@dataclass
class Life:
    """A group of one topic on one broker, told what happens and looked at every 5 s."""

    queues: int = 8
    rules: Rules = RULES
    state: GroupState = field(default_factory=lambda: GroupState("DefaultCluster", "order-service", at(0)))
    now: float = 0
    clients: dict[str, tuple[str, set[int]]] = field(default_factory=dict)
    outcomes: list[tuple[float, Outcome]] = field(default_factory=list)

    def beat(self, client_addr: str, **told: object) -> None:
        client_id, _ = self.clients[client_addr]
        beat = Heartbeat(client_id, client_addr, at(self.now))
        change = self.state.membership.register(beat, subscribes(*told.pop("topics", ("orders",)), **told))  # type: ignore[misc]  # names
        self.state.is_stale = self.state.is_stale or change is not None

    def start(self, client_addr: str, client_id: str, *queues: int, **told: object) -> None:
        """A client that heartbeats every 30 s and pulls these queues every 10 s from now on."""
        self.clients[client_addr] = (client_id, set(queues))
        self.beat(client_addr, **told)

    def take(self, client_addr: str, *queues: int) -> None:
        self.clients[client_addr] = (self.clients[client_addr][0], set(queues))

    def leave(self, client_addr: str) -> None:
        del self.clients[client_addr]
        self.state.is_stale = self.state.membership.unregister("broker-a", client_addr, at(self.now)) is not None

    def freeze(self, client_addr: str) -> None:
        """It stays connected and is listed, and does nothing more."""
        del self.clients[client_addr]

    def run(self, until: float) -> list[tuple[float, str, str, str]]:
        """Let time pass; (second, kind, state, cause) of the alert rows meanwhile."""
        since = len(self.outcomes)
        while self.now < until:
            self.now += 5
            for client_addr, (client_id, queues) in sorted(self.clients.items()):
                if self.now % 30 == 0:
                    self.beat(client_addr)
                if self.now % 10 == 0:
                    for queue_id in sorted(queues):
                        self.state.observe(Pull(client_id, client_addr, queue_id, at(self.now), max_offset=100))
            outcome = tick(self.state, {"orders": route(self.queues)}, at(self.now), Hearing(), self.rules)
            self.outcomes.append((self.now, outcome))
        return [
            (when, row.incident.kind, row.state, row.incident.cause)
            for when, outcome in self.outcomes[since:]
            for row in outcome.transitions
        ]

    def verdicts(self) -> dict[int, str]:
        watched = self.state.topics["orders"].queues
        return {int(name.rpartition(":")[2]): watch.verdict for name, watch in watched.items()}
