"""Facts to feed the rules with: heartbeats, pulls, members, and a group that lives through them.

Times are seconds from an arbitrary start, for a test to be readable; the rules see milliseconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.rules import default_rules, kind_rules
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage, Unasked
from udfs.groups.group import Outcome, tick
from udfs.groups.queue_state import Puller
from udfs.groups.state import GroupState
from udfs.rocketmq.membership import Member
from udfs.rocketmq.model import queue_order
from udfs.rocketmq.route import QueueData, Route

A, B, C = "a@7", "b@7", "c@7"
"""Three ClientIds."""

BOTH = ("broker-a", "broker-b")

START_MS = 1_789_000_000_000
RULES = default_rules(kinds={"*": kind_rules(pending_evaluations=1, recovering_ms=0)})
"""The rules' own holds and no others: what is found fires as it is certain, and is over as it is gone."""


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
    is_listed_only: bool | None = None


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
    pull_offset: int = 0
    offsets_only: bool | None = None


def subscribes(*topics: str, **reported: object) -> ConsumerData:
    return ConsumerData(tuple(Subscription(topic) for topic in topics), **reported)  # type: ignore[arg-type]  # by name


def member(client_id: str, client_addr: str = "", *, first: float = 0, last: float = 0, **reported: object) -> Member:
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
    return Member(**{**fields, **reported})  # type: ignore[arg-type]  # fields by name


def puller(client_id: str | None, first: float, last: float, client_addr: str | None = None) -> Puller:
    return Puller(client_id, client_addr or f"{client_id}:1", at(first), at(last))


def route(queues: int = 8, *broker_names: str, perm: int = 6, write: int | None = None) -> Route:
    names = broker_names or ("broker-a",)
    return Route("orders", tuple(QueueData(name, queues, write or queues, perm) for name in names), START_MS)


@dataclass
class Life:
    """A group of one topic, told what happens and looked at every 5 s.

    Queues are numbers on broker-a, or names (`broker-b:1`). `cut` are (client_addr, broker) that hear nothing of each
    other, `pulls` is what a pull tells besides.
    """

    queues: int = 8
    brokers: tuple[str, ...] = ("broker-a",)
    rules: Rules = RULES
    state: GroupState = field(default_factory=lambda: GroupState("DefaultCluster", "order-service", at(0)))
    now: float = 0
    clients: dict[str, tuple[str, set[int | str]]] = field(default_factory=dict)
    route: Route | None = None
    broker_coverage: BrokerCoverage = field(default_factory=BrokerCoverage)
    cut: set[tuple[str, str]] = field(default_factory=set)
    pulls: dict[str, object] = field(default_factory=dict)
    reported: dict[str, dict[str, object]] = field(default_factory=dict)
    outcomes: list[tuple[float, Outcome]] = field(default_factory=list)

    def beat(self, client_addr: str, **reported: object) -> None:
        client_id, _ = self.clients[client_addr]
        reported = self.reported.setdefault(client_addr, {}) | reported
        consumer = reported.pop("consumer", None) or subscribes(*reported.pop("topics", ("orders",)), **reported)  # type: ignore[misc]  # names
        for broker_name in self.brokers:
            if (client_addr, broker_name) not in self.cut:
                beat = Heartbeat(client_id, client_addr, at(self.now), broker_name)
                change = self.state.membership.register(beat, consumer)  # type: ignore[arg-type]  # facts
                self.state.is_stale = self.state.is_stale or change is not None

    def start(self, client_addr: str, client_id: str, *queues: int | str, **reported: object) -> None:
        """A client that heartbeats every 30 s and pulls these queues every 10 s from now on."""
        self.clients[client_addr] = (client_id, set(queues))
        self.reported[client_addr] = reported
        self.beat(client_addr)

    def take(self, client_addr: str, *queues: int | str) -> None:
        self.clients[client_addr] = (self.clients[client_addr][0], set(queues))

    def leave(self, client_addr: str) -> None:
        del self.clients[client_addr]
        for broker_name in self.brokers:
            change = self.state.membership.unregister(broker_name, client_addr, at(self.now))
            self.state.is_stale = self.state.is_stale or change is not None

    def freeze(self, client_addr: str) -> None:
        """It stays connected and is listed, and does nothing more."""
        del self.clients[client_addr]

    def run(self, until: float) -> list[tuple[float, str, str, str]]:
        """Let time pass; (second, kind, state, cause) of the alert rows meanwhile, of what fired."""
        since = len(self.outcomes)
        while self.now < until:
            self.now += 5
            for client_addr, (client_id, queues) in sorted(self.clients.items()):
                if self.now % 30 == 0:
                    self.beat(client_addr)
                if self.now % 10 == 0:
                    for queue in sorted(queues, key=str):
                        name = queue if isinstance(queue, str) else f"broker-a:{queue}"
                        broker_name, queue_id = queue_order(name)
                        reported = {"broker_name": broker_name, "max_offset": 100, **self.pulls}
                        self.state.observe(Pull(client_id, client_addr, queue_id, at(self.now), **reported))  # type: ignore[arg-type]  # by name
            known = self.route or route(self.queues, *self.brokers)
            outcome = tick(self.state, {"orders": known}, at(self.now), self.broker_coverage, self.rules)
            self.outcomes.append((self.now, outcome))
        return [
            (when, row.incident.kind, row.state, row.incident.cause)
            for when, outcome in self.outcomes[since:]
            for row in outcome.transitions
            if row.incident.has_fired
        ]

    def verdicts(self) -> dict[int, str]:
        topic_state = self.state.topics["orders"].queues
        return {int(name.rpartition(":")[2]): queue_state.verdict for name, queue_state in topic_state.items()}


def two_clients(life: Life | None = None, **reported: object) -> Life:
    """A takes 0-3 and B takes 4-7, for two minutes already."""
    life = life or Life()
    life.start("h1:1", A, 0, 1, 2, 3, **reported)
    life.start("h2:1", B, 4, 5, 6, 7, **reported)
    assert life.run(120) == []
    return life


def names(*numbers: int) -> tuple[str, ...]:
    """Queues of broker-a."""
    return tuple(f"broker-a:{number}" for number in numbers)


def route_of(*queues: tuple[str, int, int, int], masterless: tuple[str, ...] = (), order_topic: bool = False) -> Route:
    """(broker, read queues, write queues, perm) of the topic's brokers."""
    return Route("orders", tuple(QueueData(*one) for one in queues), at(0), masterless, order_topic)


def fired_kinds(life: Life) -> set[str]:
    return {row.incident.kind for _, outcome in life.outcomes for row in outcome.transitions if row.incident.has_fired}


def play(life: Life, steps: str) -> list[str]:
    """The rows of the last `to SECOND`, each "SECOND KIND [STATE] [CAUSE]": FIRING and a cause like the kind are left
    out. Steps end with ";":

    start ADDR CLIENT [QUEUES] [NAME=VALUE ...], take ADDR [QUEUES], leave ADDR, freeze ADDR, cut ADDR BROKER, heal,
    no_data [BROKER ...], pulls [NAME=VALUE ...], route BROKER:READ:WRITE:PERM ... [ordered] [no_master=BROKER],
    answer [queues]: every broker answers, and clients report their queues; unasked BROKER CLIENT,... REASON [SECOND],
    "*" for each. QUEUES: 0-3,5 broker-b:0
    """
    said: list[str] = []
    for step in filter(None, map(str.split, steps.split(";"))):
        verb, *words = step
        options = {
            name: VALUES.get(value, value) for name, _, value in (word.partition("=") for word in words) if value
        }
        words = [word for word in words if "=" not in word]
        if verb == "to":
            said = [
                " ".join(
                    [f"{when:g}", kind, *([] if state == "FIRING" else [state]), *([] if cause == kind else [cause])]
                )
                for when, kind, state, cause in life.run(float(words[0]))
            ]
        elif verb == "start":
            topics = {"topics": (options.pop("topics"),)} if "topics" in options else {}
            life.start(words[0], CLIENTS.get(words[1], words[1]), *queues_of(words[2:]), **options, **topics)
        elif verb == "take":
            life.take(words[0], *queues_of(words[1:]))
        elif verb == "cut":
            life.cut.add((words[0], words[1]))
        elif verb == "heal":
            life.cut.clear()
        elif verb == "no_data":
            life.broker_coverage = BrokerCoverage(frozenset(words))
        elif verb == "answer":
            life.broker_coverage = BrokerCoverage(answered=frozenset(life.brokers), reports_answers=bool(words))
        elif verb == "unasked":
            broker_name, clients, reason, *second = [None if word == "*" else word for word in words]
            since_ms = at(float(*second) if second else 120)
            missing = [CLIENTS.get(name, name) for name in clients.split(",")] if clients else [None]
            unasked = tuple(Unasked(broker_name, "order-service", one, reason, since_ms) for one in missing)
            life.broker_coverage = BrokerCoverage(answered=frozenset(life.brokers), unasked=unasked)
        elif verb == "pulls":
            life.pulls = {name: int(value) if value.isdecimal() else value for name, value in options.items()}
        elif verb == "route":
            queues = [word.split(":") for word in words if ":" in word]
            life.route = route_of(
                *((name, *map(int, nums)) for name, *nums in queues),  # type: ignore[arg-type]  # three numbers
                masterless=tuple(options.values()),
                order_topic="ordered" in words,
            )
            life.state.is_stale = True
        else:
            {"leave": life.leave, "freeze": life.freeze}[verb](words[0])
    return said


CLIENTS = {"A": A, "B": B, "C": C}
VALUES: dict[str, Any] = {"yes": True, "no": False}


def queues_of(words: Iterable[str]) -> Iterator[int | str]:
    for word in words:
        if ":" in word:
            yield word
            continue
        for span in word.split(","):
            first, _, last = span.partition("-")
            yield from range(int(first), int(last or first) + 1)
