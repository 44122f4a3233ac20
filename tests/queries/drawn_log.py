"""Logs drawn by a seed: groups that live as they should, and what may happen to any of them, at any time, at once."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from tests.queries.events import BOTH, Event, beat, pull
from tests.queries.logs import SECOND, START

BROKERS = BOTH
WHO = ("client_addr", "client_id")
TOPICS = ("orders", "bills")
NAMES = ("plain", "pod-7c9df8b6-x1", "pod-7c9df8b6-x2", "n1", "n2", "n3", "n4", "n5", "n6")
"""Of groups: one without a family, two pods of one, and numbers."""

ROUND_MS = (5_000, 5_000, 10_000, 31_000, 60_000)


UNSHARED = ({"consume_type": "CONSUME_POP"}, {"client_rebalance": False}, {"subscriptions": []})
"""How members report that they do not share queues out: POP, server-side rebalance, assign()."""


@dataclass
class Client:
    """A process of one group, which heartbeats and pulls as long as it is well."""

    name: str
    addr: str
    topics: list[str]
    reported: dict[str, Any] = field(default_factory=dict)
    silent_until: int = 0
    idle_until: int = 0
    slave_until: int = 0
    brokers: int = 2


@dataclass
class DrawnLog:
    """`trouble` is how often something happens, a second; the log is `minutes` long. `noise` is what goes on all the
    time: heartbeats that are lost, pulls that are refused or half told.
    """

    seed: int
    groups: int = 3
    trouble: float = 0.02
    minutes: int = 14
    noise: float = 1.0

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.round_ms = self.rng.choice(ROUND_MS)
        self.queues = {topic: self.rng.randrange(1, 4) for topic in TOPICS}
        self.without_data: dict[str, int] = {}
        self.unasked: list[tuple[int, dict[str, Any]]] = []
        self.offsets: dict[tuple[str, str, str, int], list[int]] = {}
        self.stuck: dict[tuple[str, str, str, int], int] = {}
        self.dark_until = 0
        self.are_two = self.rng.random() < 0.3
        self.stopped: dict[int, int] = {}
        self.clients: dict[str, list[Client]] = {}
        own = Random(f"{self.seed} unshared")
        self.unshared = {name: own.choice((None, None, None, None, *UNSHARED)) for name in NAMES}
        for name in self.rng.sample(NAMES, self.groups):
            topics = self.rng.choice((["orders"], ["orders"], ["orders", "bills"]))
            self.clients[name] = [self._client(name, topics) for _ in range(self.rng.randrange(1, 4))]

    def _client(self, group: str, topics: list[str]) -> Client:
        number = self.rng.randrange(10_000)
        kind = {"strategy": "AVG"} if self.rng.random() < 0.5 else {}
        if self.rng.random() < 0.1:
            kind["message_model"] = "BROADCASTING"
        client = Client(f"{group}@{number}", f"10.0.0.{number % 250}:{number}", list(topics), kind)
        if self.rng.random() < 0.1:
            client.brokers = 1
        if self.rng.random() < 0.1:
            client.name = f"172.17.0.2@{number % 7}"
        return client

    def events(self) -> list[Event]:
        """In the order of time."""
        drawn = sorted(self._drawn(), key=lambda one: (one[1]["event_time_ms"], one[0] == CLOCKS, one[0] != ROUTES))
        return [(topic, {"cluster": "c", **event}) for topic, event in drawn]

    def _drawn(self) -> Iterator[Event]:
        next_round = START + self.round_ms
        for second in range(self.minutes * 60):
            now_ms = START + second * SECOND
            if second % 60 == 0:
                yield from (self._route(topic, now_ms) for topic in TOPICS)
            if self.rng.random() < self.trouble:
                yield from self._happen(now_ms)
            if now_ms >= self.dark_until:
                for group, clients in self.clients.items():
                    for place, client in enumerate(clients):
                        yield from self._live(group, client, place, second, now_ms)
            if now_ms >= next_round:
                next_round += self.round_ms + self.rng.choice((0, 0, 0, 3, -2, 40))
                if now_ms >= self.dark_until:
                    yield from self._clocks(now_ms + 999)

    def _live(self, group: str, client: Client, place: int, second: int, now_ms: int) -> Iterator[Event]:
        if (second + place * 7) % 30 == 0 and now_ms >= client.silent_until:
            for broker_name in BROKERS[: client.brokers]:
                if self.rng.random() > 0.02 * self.noise:
                    yield self._beat(group, client, broker_name, now_ms + self.rng.randrange(50))
        if (second + place * 3) % 10 == 0 and now_ms >= client.idle_until:
            yield from self._pulls(group, client, now_ms)

    def _beat(self, group: str, client: Client, broker_name: str, at_ms: int, **reported: Any) -> Event:
        events = [beat(0, client.name, client.addr, group, topic)[1] for topic in client.topics]
        (consumer,) = events[0]["consumers"]
        subscriptions = [one for event in events for one in event["consumers"][0]["subscriptions"]]
        shared = {"subscriptions": subscriptions, **client.reported, **(self.unshared[group] or {})}
        at = {"broker_name": broker_name, "event_time_ms": at_ms}
        return HEARTBEATS, {**events[0], "consumers": [consumer | shared], **at, **reported}

    def _pulls(self, group: str, client: Client, now_ms: int) -> Iterator[Event]:
        """Its share of each topic's queues, by their place among the ClientIds."""
        among, place = len(self.clients[group]), sorted(self.clients[group], key=lambda one: one.name).index(client)
        for topic in client.topics:
            all_queues = [(broker, number) for broker in BROKERS for number in range(self.queues[topic])]
            size, longer = divmod(len(all_queues), among)
            first = place * size + min(place, longer)
            for broker_name, number in all_queues[first : first + size + (place < longer)]:
                yield self._pull(group, client, (topic, broker_name, number), now_ms)

    def _pull(self, group: str, client: Client, queue: tuple[str, str, int], now_ms: int) -> Event:
        topic, broker_name, number = queue
        key = (group, *queue)
        offsets = self.offsets.setdefault(key, [100, 100])
        offsets[1] += self.rng.randrange(3)
        if now_ms >= self.stuck.get(key, 0):
            offsets[0] = max(offsets[0], offsets[1] - self.rng.choice((0, 0, 0, 2)))
        reported: dict[str, Any] = {"commit_offset": offsets[0], "max_offset": offsets[1]}
        if self.rng.random() < 0.05 * self.noise:
            reported = self.rng.choice(({}, {"max_offset": offsets[1]}, {**reported, "offsets_only": True}))
        if self.rng.random() < 0.01 * self.noise:
            reported["pull_status"] = self.rng.choice(("NO_PERMISSION", "NO_MATCHED_MSG"))
        if now_ms < client.slave_until:
            reported |= {"broker_id": 1, "suggest_broker_id": 1}
        who = {"client_addr": client.addr, "client_id": client.name}
        if self.rng.random() < 0.03 * self.noise:
            del who[self.rng.choice(WHO)]
        if self.unshared[group] in UNSHARED[:2]:
            who, reported = {"client_addr": None, "client_id": None}, {**reported, "offsets_only": True}
        ahead = self.rng.choice((0, 0, 0, 1_000)) if now_ms < self.stuck.get(key, 0) else 0
        at: dict[str, Any] = {"topic": topic, "broker_name": broker_name}
        at["event_time_ms"] = now_ms + self.rng.randrange(100)
        event = pull(0, number, group=group, **at, pull_offset=offsets[0] + ahead)[1]
        return PULLS, {name: value for name, value in event.items() if name not in WHO} | who | reported

    def _route(self, topic: str, at_ms: int) -> Event:
        count = self.queues[topic]
        data = [
            {"broker_name": name, "read_queue_nums": count, "write_queue_nums": count, "perm": 6} for name in BROKERS
        ]
        brokers = [{"broker_name": name, "broker_ids": [0]} for name in BROKERS]
        return ROUTES, {"topic": topic, "queues": data, "brokers": brokers, "event_time_ms": at_ms}

    def _clocks(self, at_ms: int) -> Iterator[Event]:
        """One for all groups, or one of each of two collectors that share them, as long as it runs."""
        answered = [name for name in BROKERS if at_ms >= self.without_data.get(name, 0)]
        reported = {"source": "collector", "brokers_asked": list(BROKERS), "brokers_answered": answered}
        unheard = [one for until, one in self.unasked if at_ms < until]
        if unheard:
            reported["unheard"] = unheard
        if not self.are_two:
            yield CLOCKS, {**reported, "event_time_ms": at_ms}
            return
        names = sorted(self.clients)
        for number in (0, 1):
            if at_ms >= self.stopped.get(number, 0):
                mine = {"collector": f"k{number}", "groups": names[number::2], "interval_ms": self.round_ms}
                yield CLOCKS, {**reported, **mine, "event_time_ms": at_ms + 400 * number}

    def _happen(self, now_ms: int) -> Iterator[Event]:
        group = self.rng.choice(list(self.clients))
        clients, until = self.clients[group], now_ms + self.rng.choice((8, 40, 80, 130, 300)) * SECOND
        client = self.rng.choice(clients) if clients else None
        what = self.rng.randrange(16)
        if what == 0:
            clients.append(self._client(group, self.rng.choice((["orders"], ["orders", "bills"]))))
        elif what == 1:
            self.without_data[self.rng.choice(BROKERS)] = until
        elif what == 2:
            about = {
                "broker_name": self.rng.choice((None, *BROKERS)),
                "consumer_group": self.rng.choice((None, group)),
            }
            who = self.rng.choice((None, client.name if client else None))
            one = {**about, "client_id": who, "reason": "timed_out", "since_ms": now_ms}
            self.unasked.append((until, one))
        elif what == 3:
            self.dark_until = until
        elif what == 15:
            self.stopped[self.rng.randrange(2)] = until
        elif what == 4:
            self.round_ms = self.rng.choice(ROUND_MS)
        elif what == 5:
            topic = self.rng.choice(TOPICS)
            self.queues[topic] = self.rng.randrange(1, 4)
            yield self._route(topic, now_ms)
        elif client is not None:
            yield from self._happen_to(group, client, what, until, now_ms)

    def _happen_to(self, group: str, client: Client, what: int, until: int, now_ms: int) -> Iterator[Event]:
        clients = self.clients[group]
        if what in (6, 7):
            clients.remove(client)
            if what == 6:
                yield from (self._beat(group, client, name, now_ms, leaving=True) for name in BROKERS)
        elif what == 8:
            client.silent_until = client.idle_until = until
        elif what == 9:
            client.idle_until = until
        elif what == 10:
            client.addr = f"10.0.1.{self.rng.randrange(250)}:{self.rng.randrange(9999)}"
        elif what == 11:
            client.slave_until = until
        elif what == 12:
            for topic in client.topics:
                for number in range(self.queues[topic]):
                    self.stuck[group, topic, self.rng.choice(BROKERS), number] = until
        elif what == 13:
            clients.append(Client(client.name, f"10.0.2.{self.rng.randrange(250)}:7", client.topics, client.reported))
        else:
            client.topics = self.rng.choice((["orders"], ["bills"], ["orders", "bills"]))
