"""Who gave data where: a broker that falls silent to clients which speak elsewhere, and the innocent cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.brokers.heartbeat_sample import FORGET_MS, SAMPLE, HeartbeatSample, rank

NOW = 1_000_000
LATE = NOW - 70_000
FRESH, OLD = NOW - 10_000, NOW - 100_000

AGES = {"+": FRESH, "-": OLD, "=": LATE, ">": LATE + 1}

# One row a case: why; each broker's clients, heard lately (+), long ago (-), at the limit (=), just after it (>);
# and the broker that is silent.
CASES = (
    ("all give data everywhere", "a: x+ y+ | b: x+ y+", ""),
    ("b is silent to both, who speak at a", "a: x+ y+ | b: x- y-", "b"),
    ("one of two is silent at b: a client's own trouble", "a: x+ y+ | b: x- y+", ""),
    ("b had one client only, which may be the trouble", "a: x+ y+ | b: x-", ""),
    ("b's clients are silent everywhere: they are frozen", "a: x- y- z+ | b: x- y-", ""),
    ("one of b's two clients is frozen: too few witnesses", "a: x- y+ | b: x- y-", ""),
    ("two of b's three clients speak at a", "a: x- y+ z+ | b: x- y- z-", "b"),
    ("witnesses may speak at different brokers", "a: x+ | c: y+ | b: x- y-", "b"),
    ("a heartbeat is late at its very limit", "a: x+ y+ | b: x= y=", "b"),
    ("and in time just after", "a: x+ y+ | b: x> y-", ""),
)


def heard(text: str) -> dict[str, dict[str, int]]:
    brokers = (one.split(":") for one in text.split("|"))
    return {name.strip(): {word[0]: AGES[word[1]] for word in words.split()} for name, words in brokers}


def voices_of(heard: dict[str, dict[str, int]]) -> HeartbeatSample:
    heartbeat_sample = HeartbeatSample()
    for broker_name, of_broker in heard.items():
        for client_id, time_ms in of_broker.items():
            heartbeat_sample.note(broker_name, client_id, time_ms)
    return heartbeat_sample


@pytest.mark.parametrize(("reason", "text", "silent"), CASES, ids=[case[0] for case in CASES])
def test_a_broker_is_silent_when(reason: str, text: str, silent: str) -> None:
    assert voices_of(heard(text)).silent(LATE).keys() == set(silent), reason


def test_a_broker_is_silent_since_its_newest_heartbeat_and_a_client_that_left_is_no_witness() -> None:
    heartbeat_sample = voices_of({"a": {"x": FRESH, "y": FRESH}, "b": {"x": OLD, "y": OLD - 9}})
    assert heartbeat_sample.silent(LATE) == {"b": OLD}
    heartbeat_sample.leave("b", "x")
    assert heartbeat_sample.silent(LATE) == {}


@pytest.mark.parametrize(
    ("text", "since_ms"), [("a: x- | b: y=", LATE), ("a: x- | b: y+", None), ("a: x- | b: x-", None)]
)
def test_all_are_silent_when_several_clients_are_heard_nowhere(text: str, since_ms: int | None) -> None:
    assert voices_of(heard(text)).all_silent(LATE) == since_ms


def test_who_was_heard_nowhere_for_long_is_forgotten_unless_nobody_speaks() -> None:
    heartbeat_sample = voices_of({"a": {"x": NOW}, "b": {"x": NOW - FORGET_MS, "y": NOW - FORGET_MS}})
    heartbeat_sample.forget()
    assert heartbeat_sample.heard_ms == {"a": {"x": NOW}, "b": {"x": NOW - FORGET_MS}}
    assert heartbeat_sample.newest_ms == {"x": NOW}
    silent = voices_of({"a": {"x": OLD, "y": OLD}})
    silent.forget()
    assert silent.all_silent(NOW + FORGET_MS) == OLD


def test_few_of_a_large_brokers_clients_are_witnesses_for_a_small_one() -> None:
    """40 clients at both brokers, 460 more at a: the samples hardly overlap, where b's speak is known all the same."""
    heartbeat_sample = HeartbeatSample()
    for number in range(500):
        heartbeat_sample.note("a", f"c{number}", OLD)
    for number in range(40):
        heartbeat_sample.note("b", f"c{number}", OLD)
    for number in range(500):
        heartbeat_sample.note("a", f"c{number}", FRESH)
    assert heartbeat_sample.silent(LATE) == {"b": OLD}


@given(client_ids=st.permutations([f"10.0.0.{host}@{host}" for host in range(40)]))
def test_the_sample_is_the_same_in_whatever_order_clients_are_heard(client_ids: list[str]) -> None:
    heartbeat_sample = HeartbeatSample()
    for client_id in client_ids:
        heartbeat_sample.note("a", client_id, NOW)
    assert set(heartbeat_sample.heard_ms["a"]) == set(sorted(client_ids, key=rank)[:SAMPLE])


def test_who_leaves_a_full_sample_makes_room_for_the_next_that_is_heard() -> None:
    ranked, heartbeat_sample = sorted((f"c{number}" for number in range(SAMPLE + 1)), key=rank), HeartbeatSample()
    for client_id in ranked:
        heartbeat_sample.note("a", client_id, NOW)
    assert ranked[-1] not in heartbeat_sample.heard_ms["a"]
    heartbeat_sample.leave("a", ranked[0])
    heartbeat_sample.note("a", ranked[-1], NOW)
    assert set(heartbeat_sample.heard_ms["a"]) == set(ranked[1:])
