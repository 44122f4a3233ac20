"""The leader of several collectors, by the log of their claims, and a collector's turns with a fake lease."""

import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.settings import Settings
from streaming.collector import lease as lease_module
from streaming.collector.lease import (
    BLIND_SECONDS,
    Claim,
    CollectorName,
    Leadership,
    LeaseLostError,
    Turn,
    find_part,
    parse_claim,
)
from tests.collector.rounds import Clock

TTL_MS = 20_000


def claim(holder: str, *, is_released: bool = False) -> Claim:
    return Claim(holder, f"host-{holder}", TTL_MS, is_released)


def leaders(*steps: tuple[int, str]) -> str:
    """Return the leader after each claim at (seconds, holder); "-x": x gives the lease back; ".": no leader."""
    lease, found = Leadership(), ""
    for offset, (seconds, holder) in enumerate(steps):
        one = claim(holder.strip("-"), is_released=holder.startswith("-"))
        lease = lease.after(one, seconds * 1000, offset)
        found += lease.holder if lease.until_ms > seconds * 1000 else "."
    return found


@pytest.mark.parametrize(
    ("reason", "steps", "found"),
    [
        ("the first claim leads", [(0, "a"), (1, "b")], "aa"),
        ("a leader that continues to claim stays", [(0, "a"), (15, "a"), (21, "b"), (30, "a"), (36, "b")], "aaaaa"),
        ("after a lease without a claim another leads", [(0, "a"), (19, "b"), (20, "b")], "aab"),
        ("a late holder waits", [(0, "a"), (20, "b"), (21, "a"), (41, "a")], "abba"),
        ("a late holder without a follower continues", [(0, "a"), (60, "a")], "aa"),
        ("a lease that is given back is free at once", [(0, "a"), (1, "-a"), (1, "b")], "a.b"),
        ("no process gives back another's lease", [(0, "a"), (1, "-b"), (2, "b")], "aaa"),
    ],
)
def test_the_leader_after_claims(reason: str, steps: list[tuple[int, str]], found: str) -> None:
    assert leaders(*steps) == found, reason


def test_a_holder_keeps_its_term_after_a_pause_and_another_holder_has_another() -> None:
    lease = Leadership().after(claim("a"), 0, 7)
    assert lease.term == 7
    late = lease.after(claim("a"), 90_000, 8)
    assert late.term == 7
    assert late.after(claim("b"), 200_000, 9).after(claim("a"), 300_000, 10).term == 10


def test_claims_of_others_are_kept_for_a_lease() -> None:
    lease = Leadership().after(claim("leader"), 0, 0).after(claim("b"), 1_000, 1).after(claim("c"), 5_000, 2)
    assert list(lease.asked_ms) == ["b", "c"]
    assert list(lease.after(claim("leader"), TTL_MS + 1_000, 3).asked_ms) == ["c"]
    assert list(lease.after(claim("b", is_released=True), 6_000, 3).asked_ms) == ["c"]


@given(st.lists(st.tuples(st.integers(0, 15_000), st.sampled_from("abc"), st.booleans()), max_size=60))
def test_a_lease_never_changes_hands_before_its_time(claims: list[tuple[int, str, bool]]) -> None:
    lease, at_ms = Leadership(), 0
    for offset, (later_ms, holder, is_released) in enumerate(claims):
        at_ms += later_ms
        after = lease.after(claim(holder, is_released=is_released), at_ms, offset)
        if after.holder != lease.holder:
            assert at_ms >= lease.until_ms
            assert after.term == offset
        lease = after


@pytest.mark.parametrize("value", [None, b"", b"{", b"[1]", b'{"holder": 7}', b"[" * 100_000])
def test_a_message_that_is_no_claim_is_skipped(value: bytes | None) -> None:
    assert parse_claim(value) is None


def part(**collector: object) -> str:
    return find_part(Settings.load(collector={"name_server": "ns-1:9876;ns-2:9876", **collector}).collector)


def test_collectors_of_the_same_part_share_a_lease() -> None:
    assert part() == part(name_server="ns-2:9876; ns-1:9876", id="another", interval_seconds=5.0)
    others = [part(cluster="east"), part(groups=["a"]), part(topics=["t"]), part(name_server="ns-3:9876")]
    assert len({part(), *others}) == 5


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
