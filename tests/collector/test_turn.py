"""Turns of a collector, with a fake consumer group."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import OffsetAndMetadata
from kafka.coordinator.base import MemberState
from kafka.errors import CommitFailedError, GroupAuthorizationFailedError, KafkaConnectionError
from structlog.testing import capture_logs

from conf.settings import Settings
from streaming.collector import lease as lease_module
from streaming.collector.lease import BLIND_SECONDS, CollectorName, LeaseLostError, Turn, find_part
from tests.collector.rounds import Clock

SECONDS = 20.0


class FakeGroup:
    """A consumer and an admin client of a group; the test sets the owner, the members and failures."""

    def __init__(self) -> None:
        self.is_owner = False
        self.error: Exception | None = None
        self.committed_by = ""
        self.members = 2
        self.joins = self.leaves = 0

    def join(self, *_: object) -> "FakeGroup":
        self.joins += 1
        return self

    def poll(self, timeout_ms: int) -> None:
        if self.error:
            raise self.error

    def committed(self, *_: object, **__: object) -> OffsetAndMetadata | None:
        return OffsetAndMetadata(0, self.committed_by, -1) if self.committed_by else None

    def assignment(self) -> set[int]:
        return {0} if self.is_owner else set()

    def group_metadata(self) -> "FakeGroup":
        return self

    state = MemberState.STABLE

    def commit(self, offsets: dict[Any, OffsetAndMetadata], **_: object) -> None:
        if not self.is_owner:
            raise CommitFailedError
        (self.committed_by,) = (offset.metadata for offset in offsets.values())

    def close(self, **_: object) -> None:
        self.leaves += 1


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> FakeGroup:
    group = FakeGroup()
    monkeypatch.setattr(Turn, "_join", group.join)
    monkeypatch.setattr(Turn, "_open_admin", lambda _: FakeGroup())
    monkeypatch.setattr(Turn, "_find_members", lambda *_: [{}] * group.members)
    return group


@pytest.fixture
def turn(group: FakeGroup) -> Iterator[Turn]:
    with new_turn() as turn:
        yield turn


@contextlib.contextmanager
def new_turn(**collector: object) -> Iterator[Turn]:
    settings = Settings.load(collector={"name_server": "ns:9876", "lease_seconds": SECONDS, **collector})
    with contextlib.closing(CollectorName(settings.collector)) as name:
        yield Turn(settings.kafka, settings.collector, name)


def test_memory_is_dropped_after_another_leader(turn: Turn, group: FakeGroup) -> None:
    seen = []
    for is_owner, other in ((0, "other b"), (1, ""), (1, ""), (0, ""), (1, ""), (0, "other b"), (1, ""), (1, "")):
        group.is_owner, group.committed_by = bool(is_owner), other or group.committed_by
        seen.append((turn.take(), turn.is_ours))
    no, new, on = (False, False), (True, True), (False, True)
    assert seen == [no, new, on, no, on, no, new, on]


def test_the_leader_is_logged_once(turn: Turn, group: FakeGroup) -> None:
    with capture_logs() as logs:
        group.committed_by = "other the leader"
        turn.take()
        turn.take()
        group.is_owner = True
        turn.take()
        turn.take()
    assert [(line["event"], line["leader"]) for line in logs] == [
        ("standby entered", "the leader"),
        ("leadership acquired", turn._name.text),
    ]


def test_a_round_that_another_may_have_taken_over_is_not_published(turn: Turn, group: FakeGroup) -> None:
    group.is_owner = True
    turn.take()
    turn.check()
    group.is_owner = False
    with pytest.raises(LeaseLostError):
        turn.check()
    assert not turn.is_ours


def test_after_the_end_nothing_is_published_and_no_group_is_joined(turn: Turn, group: FakeGroup) -> None:
    group.is_owner = True
    turn.take()
    turn.close()
    with pytest.raises(LeaseLostError):
        turn.check()
    turn.take()
    assert (turn.is_ours, group.joins, group.leaves) == (False, 1, 1)


def test_a_leader_offers_its_lease_to_a_standby_for_a_lease(
    turn: Turn, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(lease_module, "time", clock)
    group.is_owner, group.members = True, 1
    turn.take()
    turn.offer()
    assert turn.is_ours, "no standby waits"
    group.members = 2
    turn.offer()
    turn.take()
    assert (turn.is_ours, group.leaves) == (False, 1)
    clock.ahead += SECONDS
    turn.take()
    assert (turn.is_ours, group.joins) == (True, 2)


def test_a_leader_without_any_broker_offers_its_lease_at_intervals(
    turn: Turn, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(lease_module, "time", clock)
    group.is_owner = True
    leaves = []
    for answered, later in ((2, SECONDS), (0, SECONDS), (0, BLIND_SECONDS), (0, SECONDS)):
        turn.take()
        turn.note_brokers(answered)
        leaves.append(group.leaves)
        clock.ahead += later
    assert leaves == [0, 1, 1, 2]


def test_a_kafka_that_denies_leases_lets_the_collector_lead(turn: Turn, group: FakeGroup) -> None:
    group.error = GroupAuthorizationFailedError()
    with capture_logs() as logs:
        for _ in range(3):
            assert not turn.take()
            turn.check()
            assert turn.is_ours
    assert [line["event"] for line in logs] == ["lease denied, running without a standby lease"]


def test_a_kafka_that_does_not_answer_is_asked_again(turn: Turn, group: FakeGroup) -> None:
    group.is_owner, group.error = True, KafkaConnectionError()
    with capture_logs() as logs:
        for _ in range(3):
            assert not turn.take()
            assert not turn.is_ours
        assert [line["event"] for line in logs] == ["lease access failed, retrying"]
        group.error = None
        assert turn.take()
    assert turn.is_ours


def test_a_standby_polls_until_it_has_joined_after_the_leaders_round(
    turn: Turn, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka answers a member's join after the leader's next poll, and its other requests after that."""
    states = iter([*[MemberState.REBALANCING] * 5, MemberState.STABLE])
    monkeypatch.setattr(FakeGroup, "state", property(lambda _: next(states)))
    group.is_owner = True
    assert turn.take()
    assert next(states, None) is None


def test_a_standby_that_ends_while_it_joins_waits_no_longer(turn: Turn, group: FakeGroup) -> None:
    group.state = MemberState.REBALANCING
    waiting = threading.Thread(target=turn.take)
    waiting.start()
    turn.close()
    waiting.join(10)
    assert (waiting.is_alive(), turn.is_ours) == (False, False)


def test_without_a_lease_every_turn_is_ours(group: FakeGroup) -> None:
    with new_turn(lease_seconds=0) as turn:
        assert not turn.take()
        turn.check()
        turn.note_brokers(0)
        assert turn.is_ours
    assert group.joins == 0


def part(**collector: object) -> str:
    return find_part(Settings.load(collector={"name_server": "ns-1:9876;ns-2:9876", **collector}).collector)


def test_collectors_of_the_same_part_share_a_lease() -> None:
    assert part() == part(name_server="ns-2:9876; ns-1:9876", id="another", interval_seconds=5.0)
    others = [part(cluster="east"), part(groups=["a"]), part(topics=["t"]), part(name_server="ns-3:9876")]
    assert len({part(), *others}) == 5
