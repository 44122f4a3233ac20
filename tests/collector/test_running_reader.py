"""Requests for running info: members, brokers, backoff, and the reasons for missing data."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from streaming.collector import running_reader
from streaming.collector.reading import BrokerReading, find_members, find_twins
from streaming.collector.rocketmq_answers import Broker, RunningInfo
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.collector.running_reader import WAIT_SECONDS, Answers, Backoff, RunningReader, find_late, pick_questions
from tests.collector.rounds import (
    BROKER_A,
    BROKER_B,
    GROUP,
    NOW,
    SOLO,
    TWIN,
    TWINS,
    Clock,
    process_queue,
    refused,
    running,
    timed_out,
    view,
)

SOLO_ID = SOLO[0]
MEMBER = (GROUP, SOLO_ID)


class Clients:
    """Clients that answer but for those in `errors` and those that hang; fails when one has two questions at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []  # broker_name, client id
        self.errors: dict[str, RocketMQError] = {}  # by client id, or by the broker that asks it
        self.hanging: set[str] = set()
        self.hang_seconds = 0.1
        self.answer_seconds = 0.0
        self._busy: dict[str, threading.Lock] = {}

    def read_running_info(self, broker: Broker, _: str, client_id: str) -> RunningInfo:
        lock = self._busy.setdefault(client_id, threading.Lock())
        assert lock.acquire(blocking=False), "two questions at once"
        try:
            self.asked.append((broker.broker_name, client_id))
            time.sleep(self.answer_seconds)
            if client_id in self.hanging:
                time.sleep(self.hang_seconds)
                raise timed_out()
            if error := self.errors.get(client_id) or self.errors.get(broker.broker_name):
                raise error
            return running(process_queue(0, NOW))
        finally:
            lock.release()


class Asking:
    """Rounds of a RunningReader over the same brokers."""

    def __init__(self, clock: Clock) -> None:
        self.clients = Clients()
        self._clock = clock
        self._pool = ThreadPoolExecutor(4)
        self._reader = RunningReader(self.clients.read_running_info, self._pool)

    def round(self, *views: BrokerReading, seconds: float = 5.0) -> Answers:
        self.clients.asked.clear()
        return self._reader.read({each.broker.broker_name: each for each in views}, self._clock.monotonic() + seconds)

    def pass_seconds(self, seconds: float) -> None:
        self._clock.ahead += seconds

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    clock = Clock()
    monkeypatch.setattr(running_reader, "time", clock)
    asking = Asking(clock)
    yield asking
    asking.close()


def unreported(*channels: Any) -> BrokerReading:
    """A broker without code 328."""
    whole = view(BROKER_A, *channels)
    return BrokerReading(whole.broker, whole.groups, {}, reports_producers=False)


def test_a_member_is_asked_once_and_twins_through_every_broker() -> None:
    views = [view(BROKER_A, *TWINS, SOLO), view(BROKER_B, TWINS[0], SOLO)]
    assert find_twins(views) == {(GROUP, TWIN)}
    assert find_members(views)[MEMBER] == ["broker-a", "broker-b"]
    assert pick_questions(views) == [
        ("broker-a", GROUP, TWIN),
        ("broker-b", GROUP, TWIN),
        ("broker-a", GROUP, SOLO_ID),
    ]


def test_one_client_id_from_two_hosts_at_two_brokers_is_a_twin() -> None:
    other = (TWIN, "10.0.0.7:51", NOW)
    assert find_twins([view(BROKER_A, TWINS[0]), view(BROKER_B, other)]) == {(GROUP, TWIN)}


@pytest.mark.parametrize("broker", [view(BROKER_A, SOLO), unreported(SOLO)])
def test_a_client_that_missed_one_question_is_asked_again_whether_or_not_its_heartbeat_is_reported(
    asking: Asking, broker: BrokerReading
) -> None:
    asking.clients.errors = {SOLO_ID: timed_out()}
    assert asking.round(broker).unheard == {MEMBER: "timed_out"}
    asking.clients.errors = {}
    asking.pass_seconds(WAIT_SECONDS[0])
    assert set(asking.round(broker).found) == {MEMBER}  # with the very same heartbeat
    assert asking.round(broker).unheard == {}


def test_a_member_is_asked_through_its_next_broker_before_it_is_left_in_peace(asking: Asking) -> None:
    views = (view(BROKER_A, SOLO), view(BROKER_B, SOLO))
    asking.clients.errors = {"broker-a": timed_out()}  # a half-open channel there
    assert asking.round(*views).unheard == {MEMBER: "timed_out"}
    asking.pass_seconds(WAIT_SECONDS[0])
    assert set(asking.round(*views).found) == {MEMBER}
    assert asking.clients.asked == [("broker-b", SOLO_ID)]


def test_backoff_lasts_longer_each_time_up_to_ten_minutes_and_ends_with_an_answer() -> None:
    backoff, waits = None, []
    for _ in range(8):
        backoff = Backoff.after(backoff, 100.0, is_late=False)
        waits.append(backoff.not_before - 100.0)
    assert waits == [*WAIT_SECONDS, WAIT_SECONDS[-1], WAIT_SECONDS[-1]]
    assert not backoff.is_over(100.0 + WAIT_SECONDS[-1] - 1, is_late=False)
    assert backoff.is_over(100.0 + WAIT_SECONDS[-1], is_late=False)


def test_a_client_in_backoff_is_reported_as_that_and_begins_anew_after_an_answer(asking: Asking) -> None:
    broker = view(BROKER_A, SOLO)
    asking.clients.errors = {SOLO_ID: timed_out()}
    reasons = []
    for _ in range(8):  # rounds of 10 s
        reasons.append(asking.round(broker).unheard.get(MEMBER))
        asking.pass_seconds(10.0)
    assert reasons == ["timed_out", "timed_out", *["left_in_peace"] * 5, "timed_out"]
    asking.clients.errors = {}
    asking.pass_seconds(120.0)
    assert asking.round(broker).unheard == {}
    asking.clients.errors = {SOLO_ID: timed_out()}
    asking.round(broker)
    asking.pass_seconds(10.0)
    assert asking.round(broker).unheard == {MEMBER: "timed_out"}


def test_a_frozen_client_is_asked_as_soon_as_its_heartbeats_go_on(asking: Asking) -> None:
    other = ("10.0.0.3@other", "10.0.0.3:1", NOW)
    frozen = view(BROKER_A, (*SOLO[:2], NOW - 60_000), other)
    assert find_late([frozen]) == {SOLO_ID}
    asking.clients.errors = {SOLO_ID: timed_out()}
    for _ in range(5):
        asking.round(frozen)
        asking.pass_seconds(240.0)
    asking.clients.errors = {}
    asking.pass_seconds(-239.0)
    assert asking.round(frozen).unheard == {MEMBER: "left_in_peace"}
    assert asking.round(view(BROKER_A, SOLO, other)).unheard == {}


@pytest.mark.parametrize(
    ("error", "reason"),
    [(refused(), "refused"), (RocketMQError("RemotingSendRequestException"), "failed"), (timed_out(), "timed_out")],
)
def test_missing_data_of_a_member_has_its_reason(asking: Asking, error: RocketMQError, reason: str) -> None:
    asking.clients.errors = {SOLO_ID: error}
    assert asking.round(view(BROKER_A, SOLO)) == Answers({}, {MEMBER: reason})


def test_twins_are_asked_one_after_the_other_and_a_missing_answer_is_of_both(asking: Asking) -> None:
    views = (view(BROKER_A, *TWINS), view(BROKER_B, *TWINS))
    answers = asking.round(*views)
    assert (len(answers.found[(GROUP, TWIN)]), answers.unheard) == (2, {})
    asking.clients.errors = {"broker-b": timed_out()}
    answers = asking.round(*views)
    assert (len(answers.found[(GROUP, TWIN)]), answers.unheard) == (1, {(GROUP, TWIN): "timed_out"})
    asking.pass_seconds(1.0)
    asking.round(*views)
    assert asking.clients.asked == [("broker-a", TWIN)]  # the other is in backoff, and is the only one


def fleet(size: int, first: int = 0) -> BrokerReading:
    return view(BROKER_A, *((f"c{number:03}", f"10.0.0.1:{number}", NOW) for number in range(first, first + size)))


def test_a_round_ends_at_its_deadline_although_300_clients_hang_and_names_the_unreached(asking: Asking) -> None:
    asking.clients.hanging = {f"c{number:03}" for number in range(300)}
    answers = asking.round(fleet(300), seconds=0.25)
    assert len(asking.clients.asked) < 150  # 4 at a time, 0.1 s each: 10 to 12 before the deadline, 300 without one
    assert len(answers.unheard) == 300
    reasons = set(answers.unheard.values())
    assert reasons == {"timed_out", "no_time"}


def test_unreached_clients_are_first_in_the_next_round(asking: Asking) -> None:
    asking.clients.answer_seconds = 0.02
    answered: set[tuple[str, str]] = set()
    while len(answered) < 60:  # a round has time for a third of them, on a busy machine for fewer
        answers = asking.round(fleet(60), seconds=0.1)
        assert not answers.unheard.keys() & answers.found.keys()
        assert set(answers.unheard.values()) == {"no_time"}
        assert answers.found.keys() - answered or len(answers.found) == 0
        answered |= answers.found.keys()


def test_those_that_answer_are_asked_before_those_that_hung_or_are_late(asking: Asking) -> None:
    clients = asking.clients
    clients.hang_seconds = 0.1
    clients.hanging = {f"c{number:03}" for number in range(8)}
    both = fleet(20)
    asking.round(both, seconds=2.0)
    asking.pass_seconds(WAIT_SECONDS[0] + 1)
    answers = asking.round(both, seconds=0.09)
    assert {client_id for _, client_id in answers.found} == {f"c{number:03}" for number in range(8, 20)}


def test_a_client_whose_question_is_still_under_way_is_not_asked_another(asking: Asking) -> None:
    asking.clients.hanging = {SOLO_ID}
    asking.clients.hang_seconds = 0.4
    broker = view(BROKER_A, SOLO)
    assert asking.round(broker, seconds=0.05).unheard == {MEMBER: "no_time"}
    assert asking.round(broker, seconds=0.05).unheard == {MEMBER: "no_time"}
    assert asking.clients.asked == []
