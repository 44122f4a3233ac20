"""What a collector's rounds over a modelled cluster page, by the rules of `run`: healthy clients page nobody.

Two brokers, one group, two clients that consume all the time, rounds of 10 s in virtual time.
"""

from collections.abc import Callable
from typing import Any

import pytest

from conf.settings import Settings
from streaming.collector import known_brokers, round_reader, running_reader
from streaming.collector.rocketmq_answers import (
    Broker,
    Connection,
    ConsumerConnection,
    OffsetWrapper,
    ProcessQueue,
    RunningInfo,
    TopicRoute,
)
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.collector.round_events import clock_event, compute_round
from streaming.collector.round_memory import Memory
from streaming.collector.round_reader import RoundReader
from tests.collector.rounds import BROKER_A, BROKER_B, GROUP, NOW, ORDERS, SOURCE, TOPIC, FakeAdmin, refused, timed_out
from tests.support.engine import Stream
from tests.support.tiers import in_proof
from udfs.rocketmq.route import QueueData

pytestmark = pytest.mark.replay

BROKERS = {"broker-a": BROKER_A, "broker-b": BROKER_B}
OWNERS = {"C1": "broker-a", "C2": "broker-b"}
QUEUES, STEP_S, RUN_S = 4, 10, 700

Answered = Callable[[float, tuple[str, ...]], RocketMQError | None]
"""Seconds and question to the error it ends in."""


class VirtualTime:
    """time.monotonic in virtual seconds."""

    seconds = 0.0

    def monotonic(self) -> float:
        return 1_000_000 + self.seconds


class Modelled(FakeAdmin):
    """The cluster at a moment. `skews` are seconds by which a broker's or a client's clock is ahead; `stops` says when
    a client's "heartbeats", "pulls" and "commits" end, or the producers' "messages".
    """

    def __init__(
        self,
        time: VirtualTime,
        failure: Answered,
        *,
        reports_heartbeats: bool,
        skews: dict[str, int],
        stops: dict[tuple[str, str], int],
    ) -> None:
        super().__init__()
        self._stops = stops
        self._time = time
        self._failure = failure
        self._reports_heartbeats = reports_heartbeats
        self._skews = skews
        names = tuple((name, (0,)) for name in BROKERS)
        queues = tuple(QueueData(name, QUEUES, QUEUES, 6) for name in BROKERS)
        self.routes = [TopicRoute(TOPIC, queues, names, order_topic=False)]

    def read_consumer_connection(self, broker: Broker, group: str) -> ConsumerConnection:
        self._ask("read_consumer_connection", broker.broker_name, group)
        kind = ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET")
        return ConsumerConnection(group, *kind, (ORDERS,), tuple(self._connections(broker, reports=False)))

    def read_producers(self, broker: Broker) -> dict[str, tuple[Connection, ...]] | None:
        self._ask("read_producers", broker.broker_name)
        if not self._reports_heartbeats:
            return None
        return {"CLIENT_INNER_PRODUCER": tuple(self._connections(broker, reports=True))}

    def read_running_info(self, broker: Broker, group: str, client_id: str) -> RunningInfo:
        self._ask("read_running_info", broker.broker_name, group, client_id)
        pulled = [self._since(15, each, client_id, self._until(client_id, "pulls")) for each in range(QUEUES)]
        owned = OWNERS[client_id]
        queues = (ProcessQueue(TOPIC, owned, each, 0, 0, 0, at, is_dropped=False) for each, at in enumerate(pulled))
        return RunningInfo("AVG", None, None, (ORDERS,), tuple(queues))

    def read_offsets(self, broker: Broker, group: str) -> dict[tuple[str, str, int], OffsetWrapper]:
        name = broker.broker_name
        (owner,) = (client_id for client_id, owned in OWNERS.items() if owned == name)
        end = 1_000 + int(self._until("producers", "messages"))
        commit = min(995 + int(self._until(owner, "commits")), end)
        return {(TOPIC, name, each): OffsetWrapper(end, commit, commit) for each in range(QUEUES)}

    def _connections(self, broker: Broker, *, reports: bool) -> list[Connection]:
        beats = [
            self._since(30, number * 11, broker.broker_name, self._until(client_id, "heartbeats"))
            for number, client_id in enumerate(OWNERS)
        ]
        return [
            Connection(client_id, f"10.0.0.{number}:1", "JAVA", "5.5.0", beats[number] if reports else None)
            for number, client_id in enumerate(OWNERS)
        ]

    def _until(self, client_id: str, what: str) -> float:
        return min(self._time.seconds, self._stops.get((client_id, what), RUN_S))

    def _since(self, period_s: int, phase_s: int, machine: str, until_s: float) -> int:
        """When something that comes every so often came last, by the machine's clock."""
        ago = (until_s - phase_s) % period_s
        return NOW + int((until_s - ago + self._skews.get(machine, 0)) * 1000)

    def _ask(self, *question: str) -> None:
        if error := self._failure(self._time.seconds, question):
            raise error


def pages(
    monkeypatch: pytest.MonkeyPatch,
    failure: Answered = lambda *_: None,
    *,
    reports_heartbeats: bool = True,
    skews: dict[str, int] | None = None,
    stops: dict[tuple[str, str], int] | None = None,
) -> list[tuple[int, str, str, int]]:
    """(seconds, kind, cause, number of queues) of what fires."""
    time = VirtualTime()
    for module in (known_brokers, round_reader, running_reader):
        monkeypatch.setattr(module, "time", time)
    known = skews or {}
    admin = Modelled(time, failure, reports_heartbeats=reports_heartbeats, skews=known, stops=stops or {})
    reader = RoundReader(Settings.load().collector, admin)
    memory, stream, found = Memory(), Stream(), []
    while time.seconds < RUN_S:
        time.seconds += STEP_S
        reading = reader.read()
        now_ms = NOW + int((time.seconds + known.get("collector", 0)) * 1000)
        events, after = compute_round(memory, reading, now_ms)
        rows = stream.feed([*events, clock_event(SOURCE, reading, memory, after, now_ms)])
        memory = after
        alerts: list[Any] = rows.get("alerts", [])
        found += [
            (int(time.seconds), each["kind"], each["cause"], len(each["queues"] or ()))
            for each in alerts
            if each["state"] == "FIRING"
        ]
    reader.close()
    return [each for each in found if each[1] != "clock_skew"]


def lost_at(*seconds: int) -> Answered:
    """C1 does not answer in the rounds that begin then."""
    return lambda now, question: timed_out() if now in seconds and question[-1] == "C1" else None


@pytest.mark.parametrize("reports_heartbeats", [True, False])
@pytest.mark.parametrize("idle_s", [RUN_S, 100])
@pytest.mark.parametrize("missed", [(300, 320), (300, 360), *in_proof([((300,),)])])
def test_a_healthy_client_that_misses_questions_pages_nobody(
    monkeypatch: pytest.MonkeyPatch, missed: tuple[int, ...], idle_s: int, reports_heartbeats: bool
) -> None:
    stops = {("producers", "messages"): idle_s}
    assert pages(monkeypatch, lost_at(*missed), reports_heartbeats=reports_heartbeats, stops=stops) == []


@pytest.mark.parametrize(
    "skews",
    [
        *({"broker-a": -95}, {"broker-a": 150}, {"C1": -130}, {"C1": 3_600}, {"collector": -150}),
        *in_proof([{"broker-a": -3_600}, {"C1": -90}, {"collector": 50}]),
    ],
)
def test_a_machine_whose_clock_is_out_of_step_pages_nobody(
    monkeypatch: pytest.MonkeyPatch, skews: dict[str, int]
) -> None:
    assert pages(monkeypatch, skews=skews) == []


def test_a_broker_that_loses_an_answer_now_and_then_is_heard_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = iter(range(10_000))

    def failure(_: float, question: tuple[str, ...]) -> RocketMQError | None:
        return timed_out() if question[1] == "broker-b" and next(lost) % 3 == 0 else None

    assert pages(monkeypatch, failure) == []


def test_a_group_that_may_not_be_read_makes_no_broker_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "read_consumer_connection"
    assert pages(monkeypatch, lambda _, question: refused() if question == (asked, "broker-a", GROUP) else None) == []


# What is wrong is paged all the same


def stopped(client_id: str, *what: str) -> dict[tuple[str, str], int]:
    return {(client_id, each): 300 for each in what}


def starved(found: list[tuple[int, str, str, int]]) -> tuple[int, str, int]:
    """Seconds, cause and queues of the first starved_queue."""
    at, _, cause, queues = next(each for each in found if each[1] == "starved_queue")
    return at, cause, queues


@pytest.mark.parametrize("missed", [0, 2, *in_proof([3, 6])])
def test_a_client_that_stops_pulling_is_paged_with_all_its_queues_although_rounds_are_lost(
    monkeypatch: pytest.MonkeyPatch, missed: int
) -> None:
    def failure(now: float, question: tuple[str, ...]) -> RocketMQError | None:
        is_lost = missed and question[1] == "broker-a" and int(now) // STEP_S % missed == 0
        return timed_out() if is_lost and question[0] == "read_producers" else None

    at, cause, queues = starved(pages(monkeypatch, failure, stops=stopped("C1", "pulls", "commits")))
    assert (at <= 300 + 150, cause, queues) == (True, "pull_stopped", QUEUES)


def test_a_frozen_client_is_paged_although_it_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stops = stopped("C1", "heartbeats", "pulls", "commits")
    found = pages(monkeypatch, lambda now, asked: timed_out() if now > 300 and asked[-1] == "C1" else None, stops=stops)
    at, cause, queues = starved(found)
    assert (at <= 300 + 110, cause, queues) == (True, "frozen_client", QUEUES)


@pytest.mark.parametrize("answers", [True, False])
def test_a_client_that_commits_nothing_is_paged_whether_or_not_it_answers(
    monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    def failure(now: float, asked: tuple[str, ...]) -> RocketMQError | None:
        return timed_out() if not answers and now > 300 and asked[-1] == "C1" else None

    found = pages(monkeypatch, failure, stops=stopped("C1", "commits"))
    at, cause, _ = starved(found)
    assert (at <= 300 + 260, cause) == (True, "consume_stopped")
    assert (at + STEP_S, "starved_queue", "consume_stopped", QUEUES) in found or starved(found)[2] == QUEUES
