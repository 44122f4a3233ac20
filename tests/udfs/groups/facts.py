"""Facts to feed the rules with: heartbeats, pulls, members, and a group that lives through them, step by step.

Times are seconds from an arbitrary start, for a test to be readable; the rules see milliseconds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.rules import default_rules, kind_rules
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage, Unasked
from udfs.brokers.families import Families
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
class Flow:
    """Messages that arrive in the group's queues: `come` each second; all but the last `lag` are consumed, or none."""

    come: int = 50
    lag: int = 10
    consumes: bool = True
    is_read: bool = False
    commit: int = 1_000
    end: int = 1_000

    def go_on(self) -> dict[str, int]:
        self.end += 5 * self.come
        self.commit = self.end - self.lag if self.consumes and self.come else self.commit
        return {"commit_offset": self.commit, "max_offset": self.end}


@dataclass
class Life:
    """A group of one topic: what happens to it, and an evaluation every 5 s.

    Queues are numbers on broker-a, or names (`broker-b:1`). `cut` are (client_addr, broker) without a connection,
    `pulls` is what a pull reports besides. With a `flow`, pulls report its offsets; if it `is_read`, a collector does
    every 10 s, whichever client pulls.
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
    flow: Flow | None = None
    reported: dict[str, dict[str, object]] = field(default_factory=dict)
    outcomes: list[tuple[float, Outcome]] = field(default_factory=list)

    def beat(self, client_addr: str) -> None:
        reported = dict(self.reported[client_addr])
        topics, tags = reported.pop("topics", ("orders",)), reported.pop("tags", "*")
        consumer = ConsumerData(tuple(Subscription(topic, tags) for topic in topics), **reported)  # type: ignore[arg-type, attr-defined]  # by name
        for broker_name in self.brokers:
            if (client_addr, broker_name) not in self.cut:
                self.heartbeat(client_addr, self.clients[client_addr][0], self.now, broker_name, consumer)

    def heartbeat(
        self, addr: str, client_id: str, second: float, broker_name: str, consumer: ConsumerData | None = None
    ) -> None:
        """A heartbeat at one broker, dated by it."""
        beat = Heartbeat(client_id, addr, at(second), broker_name)
        change = self.state.membership.register(beat, consumer or subscribes("orders"))
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
            if (client_addr, broker_name) not in self.cut:
                change = self.state.membership.unregister(broker_name, client_addr, at(self.now))
                self.state.is_stale = self.state.is_stale or change is not None

    def covers(self, **fields: Any) -> None:
        """The cluster's data is other from now on (BrokerCoverage)."""
        self.broker_coverage = replace(self.broker_coverage, **fields)

    def flows(self, **fields: Any) -> None:
        self.flow = replace(self.flow or Flow(), **fields)

    def freeze(self, client_addr: str) -> None:
        """It stays connected and is listed, and does nothing more."""
        del self.clients[client_addr]

    def run(self, until: float) -> list[tuple[float, str, str, str]]:
        """Let time pass; (second, kind, state, cause) of the alert rows meanwhile, of what fired."""
        since = len(self.outcomes)
        while self.now < until:
            self.now += 5
            self.pulls |= self.flow.go_on() if self.flow else {}
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
            if self.flow and self.flow.is_read and self.now % 10 == 0:
                for queue_id in range(self.queues):
                    offsets = {"commit_offset": self.flow.commit, "max_offset": self.flow.end, "offsets_only": True}
                    self.state.observe(Pull(None, None, queue_id, at(self.now), **offsets))  # type: ignore[arg-type]  # by name
        return [
            (when, row.incident.kind, row.state, row.incident.cause)
            for when, outcome in self.outcomes[since:]
            for row in outcome.transitions
            if row.incident.has_fired
        ]

    def verdicts(self) -> list[str]:
        return [queue_state.verdict for queue_state in self.state.topics["orders"].queues.values()]


def two_clients(life: Life | None = None, **reported: object) -> Life:
    """A takes 0-3 and B takes 4-7, for two minutes already."""
    life = life or Life()
    life.start("h1:1", A, 0, 1, 2, 3, **reported)
    life.start("h2:1", B, 4, 5, 6, 7, **reported)
    assert life.run(120) == []
    return life


def fired_kinds(life: Life) -> set[str]:
    return {row.incident.kind for _, outcome in life.outcomes for row in outcome.transitions if row.incident.has_fired}


CLIENTS = {"A": A, "B": B, "C": C}
VALUES: dict[str, Any] = {"yes": True, "no": False}


def play(life: Life, steps: str) -> list[str]:
    """The rows of the last `to SECOND`, each "SECOND KIND [STATE] [CAUSE]": FIRING and a cause like the kind are left
    out. Steps end with ";": a word of STEPS, then its words and options (NAME=VALUE).
    """
    said: list[str] = []
    for verb, *given in filter(None, map(str.split, steps.split(";"))):
        words = [word for word in given if "=" not in word]
        if verb == "to":
            said = [
                " ".join([f"{when:g}", kind, *({state} - {"FIRING"}), *({cause} - {kind})])
                for when, kind, state, cause in life.run(float(words[0]))
            ]
        else:
            pairs = (word.partition("=") for word in given)
            STEPS[verb](life, *words, **{name: VALUES.get(value, value) for name, _, value in pairs if value})
    return said


def _start(life: Life, addr: str, client: str, *queues: str, topics: str = "orders", **options: object) -> None:
    subscribed = () if topics == "-" else tuple(topics.split(","))
    life.start(addr, CLIENTS.get(client, client), *queues_of(queues), topics=subscribed, **options)


def _heartbeat(life: Life, addr: str, client: str, second: str, broker_name: str) -> None:
    life.heartbeat(addr, CLIENTS.get(client, client), float(second), broker_name)


def _heal(life: Life, *place: str) -> None:
    life.cut = life.cut - {place} if place else set()


def _pulls(life: Life, **reported: str) -> None:
    life.pulls = {name: int(value) if value.isdecimal() else value for name, value in reported.items()}


def _set(life: Life, **values: str) -> None:
    life.rules = replace(life.rules, **{name: int(value) for name, value in values.items()})  # type: ignore[arg-type]  # by name


def _named(life: Life, group: str) -> None:
    life.state.consumer_group = group


def families(*born: tuple[str, float]) -> Families:
    """Groups that gave data at these seconds, and one of the family cache-#-# from 0 s on."""
    found = Families()
    for second in range(0, 1_000, 30):
        found.note("cache-7d9f8c6b5-bb4wl", at(second))
    for name, second in born:
        found.note(name, at(second))
    return found


def _answer(life: Life, queues: str = "") -> None:
    life.covers(answered=frozenset(life.brokers), unasked=(), reports_answers=bool(queues))


def _unasked(
    life: Life, broker_name: str, clients: str, reason: str, second: str = "120", group: str = "order-service"
) -> None:
    missing = [None] if clients == "*" else [CLIENTS.get(name, name) for name in clients.split(",")]
    broker, since_ms = None if broker_name == "*" else broker_name, at(float(second))
    unasked = tuple(Unasked(broker, group, one, reason, since_ms) for one in missing)
    life.covers(answered=frozenset(life.brokers), unasked=unasked)


def _route(life: Life, *words: str, no_master: str = "") -> None:
    queues = tuple(
        QueueData(name, *map(int, nums)) for name, *nums in (word.split(":") for word in words if ":" in word)
    )
    masterless = (no_master,) if no_master else ()
    is_static = "static" in words
    life.route = Route("orders", queues, at(0), masterless, "ordered" in words, has_queue_mapping=is_static)
    life.state.is_stale = True


STEPS: dict[str, Callable[..., object]] = {
    "start": _start,
    "take": lambda life, addr, *queues: life.take(addr, *queues_of(queues)),
    "reports": lambda life, addr, **options: life.reported[addr].update(options),
    "leave": Life.leave,
    "freeze": Life.freeze,
    "beat": Life.beat,
    "heartbeat": _heartbeat,
    "cut": lambda life, *place: life.cut.add(place),
    "heal": _heal,
    "pulls": _pulls,
    "flow": lambda life, **figures: life.flows(**{name: int(value) for name, value in figures.items()}),
    "hang": lambda life: life.flows(consumes=False),
    "resume": lambda life: life.flows(consumes=True),
    "read": lambda life: life.flows(is_read=True),
    "unread": lambda life: life.flows(is_read=False),
    "rules": _set,
    "named": _named,
    "born": lambda life, group, second: life.covers(families=families((group, float(second)))),
    "route": _route,
    "answer": _answer,
    "unasked": _unasked,
    "no_data": lambda life, *brokers: life.covers(without_data=frozenset(brokers)),
    "answered": lambda life, *brokers: life.covers(answered=frozenset(brokers)),
    "silent": lambda life, *brokers: life.covers(silent=frozenset(brokers)),
    "back": lambda life, broker_name, second: life.covers(since_ms={broker_name: at(float(second))}),
    "pulled": lambda life, broker_name, second: life.covers(pulled_ms={broker_name: at(float(second))}),
    "masterless": lambda life, broker_name, incident_id: life.covers(masterless={broker_name: incident_id}),
}
"""The head of tests/golden/groups.txt explains them."""


def queues_of(words: Iterable[str]) -> Iterator[int | str]:
    for word in words:
        if ":" in word:
            yield word
            continue
        for span in word.split(","):
            first, _, last = span.partition("-")
            yield from range(int(first), int(last or first) + 1)
