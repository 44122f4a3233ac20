"""Whose clock is behind in a log that was written at once."""

from udfs.brokers.skew import BROKER_SOURCES, HEARTBEATS, OF_CLIENT, PULLS, Behind, LogOrder, pick_behind

S = 1_000
NOW = 1_789_000_000_000
A, B = "broker-a", "broker-b"


def reported(off_s: dict[str, int], *, writing_s: float = 1, minutes: int = 10) -> list[Behind]:
    """Of a client that speaks to two brokers every 30 s; `off_s` is how far a broker's clock is ahead."""
    order, rounds = LogOrder(), minutes * 2
    for number in range(rounds):
        for broker_name in (B, A):
            time_ms = NOW + (number * 30 + off_s.get(broker_name, 0)) * S
            order.note(HEARTBEATS, broker_name, None, time_ms, NOW + round(number * writing_s * S / rounds))
    return order.behind("c")


def off(behind: list[Behind], minutes: int = 10) -> dict[str, int]:
    return pick_behind(behind, {"c": NOW + minutes * 60 * S}).get("c", {})


def test_a_broker_whose_events_stand_behind_the_others_by_as_much_has_a_clock_behind() -> None:
    assert off(reported({B: -150})) == {"heartbeats broker-b": 120 * S}  # the client's last words before: 30 s ago
    assert off(reported({A: -150})) == {"heartbeats broker-a": 150 * S}


def test_of_two_the_one_whose_times_end_after_the_newest_tick_is_ahead() -> None:
    assert off(reported({A: 150})) == {"heartbeats broker-a": -120 * S}


def test_clocks_in_step_and_a_log_that_was_written_as_it_happened_say_nothing() -> None:
    assert off(reported({})) == {}
    assert reported({B: -150}, writing_s=600) == []
    assert reported({B: -150}, minutes=1) == []


def test_without_a_tick_nobody_knows_who_is_off() -> None:
    assert pick_behind(reported({B: -150}), {}) == {}


def test_partitions_that_do_not_agree_say_nothing() -> None:
    assert off([*reported({B: -150}), Behind("c", HEARTBEATS, B, 0, NOW)]) == {}


def test_a_log_written_broker_by_broker_says_nothing() -> None:
    order = LogOrder()
    for broker_name in (A, B):
        for number in range(20):
            order.note(PULLS, broker_name, "client@1", NOW + number * 30 * S, NOW)
    assert off(order.behind("c")) == {}
    assert PULLS in BROKER_SOURCES


def pulled(off_s: dict[str, int], *, one_until_s: int = 600) -> list[Behind]:
    """Clients that give data and pull every 5 s, "one" at broker-a, "two" at both.

    `off_s` is how far a clock is ahead: a client's that of its pulls, a broker's that of both.
    """
    order, beats = LogOrder(), LogOrder()
    for second in range(0, 600, 5):
        for broker_name, client_id in ((B, "two"), (A, "two"), *([(A, "one")] if second < one_until_s else [])):
            at_ms = NOW + (second + off_s.get(broker_name, 0)) * S
            beats.note(HEARTBEATS, broker_name, None, at_ms, NOW)
            order.note(PULLS, broker_name, client_id, at_ms + off_s.get(client_id, 0) * S, NOW)
    return [*beats.behind("c"), *order.behind("c")]


def test_a_client_that_is_ahead_is_reported_and_its_brokers_are_not() -> None:
    assert off(pulled({})) == {}
    assert off(pulled({"one": 150})) == {f"{OF_CLIENT} one": -145 * S}
    assert off(pulled({"two": -150})) == {f"{OF_CLIENT} two": 145 * S, f"pulls {B}": 145 * S}


def test_who_stopped_long_before_the_end_is_not_behind_a_broker_that_is_ahead() -> None:
    found = off(pulled({B: 150}, one_until_s=300))
    assert found == {f"heartbeats {B}": -150 * S, f"pulls {B}": -150 * S}
