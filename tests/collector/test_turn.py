"""Turns of a collector, with a fake lease."""

import contextlib
from collections.abc import Iterator

import pytest

from conf.settings import Settings
from streaming.collector import lease as lease_module
from streaming.collector.lease import BLIND_SECONDS, CollectorName, LeaseLostError, Turn
from tests.collector.rounds import Clock


class FakeLease:
    """A lease with a term that the test sets; None: another leads."""

    refusal = ""

    def __init__(self, *_: object) -> None:
        self.term: int | None = None
        self.offers = 0

    def read_term(self) -> int | None:
        return self.term

    def read_leader(self) -> str:
        return "another"

    def offer(self) -> bool:
        self.offers += 1
        return True

    def close(self) -> None:
        pass


@pytest.fixture
def lease(monkeypatch: pytest.MonkeyPatch) -> FakeLease:
    lease = FakeLease()
    monkeypatch.setattr(lease_module, "KafkaLease", lambda *_: lease)
    return lease


@pytest.fixture
def turn(lease: FakeLease) -> Iterator[Turn]:
    with new_turn() as turn:
        yield turn


@contextlib.contextmanager
def new_turn(**collector: object) -> Iterator[Turn]:
    settings = Settings.load(collector={"name_server": "ns:9876", **collector})
    with contextlib.closing(CollectorName(settings.collector)) as name:
        yield Turn(settings.kafka, settings.collector, name)


def test_memory_is_dropped_after_another_leader(turn: Turn, lease: FakeLease) -> None:
    seen = []
    for term in (None, 5, 5, None, 5, None, 9, 9):
        lease.term = term
        seen.append((turn.take(), turn.is_ours))
    no, new, on = (False, False), (True, True), (False, True)
    assert seen == [no, new, on, no, on, no, new, on]


@pytest.mark.parametrize("term", [None, 6])
def test_a_round_that_another_may_have_taken_over_is_not_published(
    turn: Turn, lease: FakeLease, term: int | None
) -> None:
    lease.term = 5
    turn.take()
    turn.check()
    lease.term = term
    with pytest.raises(LeaseLostError):
        turn.check()
    assert not turn.is_ours


def test_a_leader_without_any_broker_offers_its_lease_at_intervals(
    turn: Turn, lease: FakeLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(lease_module, "time", clock)
    lease.term = 5
    turn.take()
    for answered in (2, 0, 0):
        turn.note_brokers(answered)
    assert lease.offers == 1
    clock.ahead += BLIND_SECONDS
    turn.note_brokers(0)
    assert lease.offers == 2


def test_without_a_lease_every_turn_is_ours(lease: FakeLease) -> None:
    with new_turn(lease_seconds=0) as turn:
        assert not turn.take()
        turn.check()
        turn.note_brokers(0)
        assert turn.is_ours
    assert lease.offers == 0
