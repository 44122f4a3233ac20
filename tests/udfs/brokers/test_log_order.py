"""Whose clock is behind in a log that was written at once."""

from typing import NamedTuple

from udfs.brokers.skew import (
    BROKER_SOURCES,
    HEARTBEATS,
    OF_CLIENT,
    PULLS,
    Behind,
    find_behind,
    pick_behind,
    was_written_at_once,
)

S = 1_000
NOW = 1_789_000_000_000
A, B = "broker-a", "broker-b"


class Reported(NamedTuple):
    broker_name: str
    client_id: str | None
    event_time_ms: int


def reported(off_s: dict[str, int]) -> list[Behind]:
    """Of a client that speaks to two brokers every 30 s; `off_s` is how far a broker's clock is ahead."""
    rounds = [(number, broker_name) for number in range(20) for broker_name in (B, A)]
    times_ms = [NOW + (number * 30 + off_s.get(broker_name, 0)) * S for number, broker_name in rounds]
    events = [Reported(broker_name, None, ms) for (_, broker_name), ms in zip(rounds, times_ms, strict=True)]
    return find_behind("c", HEARTBEATS, events, S)


def off(behind: list[Behind], minutes: int = 10) -> dict[str, int]:
    return pick_behind(behind, {"c": NOW + minutes * 60 * S}).get("c", {})


def test_a_broker_whose_events_stand_behind_the_others_by_as_much_has_a_clock_behind() -> None:
    assert off(reported({B: -150})) == {"heartbeats broker-b": 120 * S}  # the client's last words before: 30 s ago
    assert off(reported({A: -150})) == {"heartbeats broker-a": 150 * S}


def test_of_two_the_one_whose_times_end_after_the_newest_tick_is_ahead() -> None:
    assert off(reported({A: 150})) == {"heartbeats broker-a": -120 * S}


def test_clocks_in_step_say_nothing() -> None:
    assert off(reported({})) == {}


def test_a_log_that_was_written_as_it_happened_was_not_written_at_once_nor_can_a_short_one_show_it() -> None:
    assert was_written_at_once(600 * S, ingest_span_ms=S)
    assert not was_written_at_once(600 * S, ingest_span_ms=600 * S)
    assert not was_written_at_once(60 * S, ingest_span_ms=S)


def test_without_a_tick_nobody_knows_who_is_off() -> None:
    assert pick_behind(reported({B: -150}), {}) == {}


def test_partitions_that_do_not_agree_say_nothing() -> None:
    assert off([*reported({B: -150}), Behind("c", HEARTBEATS, B, 0, NOW)]) == {}


def test_a_log_written_broker_by_broker_says_nothing() -> None:
    events = [Reported(name, "client@1", NOW + number * 30 * S) for name in (A, B) for number in range(20)]
    assert off(find_behind("c", PULLS, events, S)) == {}
    assert PULLS in BROKER_SOURCES


def pulled(off_s: dict[str, int], *, one_until_s: int = 600) -> list[Behind]:
    """Clients that give data and pull every 5 s, "one" at broker-a, "two" at both.

    `off_s` is how far a clock is ahead: a client's that of its pulls, a broker's that of both.
    """
    pulls, beats = list[Reported](), list[Reported]()
    for second in range(0, 600, 5):
        for broker_name, client_id in ((B, "two"), (A, "two"), *([(A, "one")] if second < one_until_s else [])):
            at_ms = NOW + (second + off_s.get(broker_name, 0)) * S
            beats.append(Reported(broker_name, None, at_ms))
            pulls.append(Reported(broker_name, client_id, at_ms + off_s.get(client_id, 0) * S))
    return [*find_behind("c", HEARTBEATS, beats, S), *find_behind("c", PULLS, pulls, S)]


def test_a_client_that_is_ahead_is_reported_and_its_brokers_are_not() -> None:
    assert off(pulled({})) == {}
    assert off(pulled({"one": 150})) == {f"{OF_CLIENT} one": -145 * S}
    assert off(pulled({"two": -150})) == {f"{OF_CLIENT} two": 145 * S, f"pulls {B}": 145 * S}


def test_who_stopped_long_before_the_end_is_not_behind_a_broker_that_is_ahead() -> None:
    found = off(pulled({B: 150}, one_until_s=300))
    assert found == {f"heartbeats {B}": -150 * S, f"pulls {B}": -150 * S}
