"""sendDefaultImpl by release: how often it tries, what each try does to the FaultItem, and how it ends.

tests/lab/oracle/test_send.py plays sends against RocketMQ.
"""

import pytest

from udfs.rocketmq.send import (
    Outcome,
    Send,
    SendOptions,
    end_try,
    judge_broker,
    retry_response_codes,
    start_send,
    start_try,
)

NOW = 1_700_000_000_000
OK = Outcome("SEND_OK")
NO_BROKER, NO_ANSWER, NO_CONNECTION = (
    Outcome(name) for name in ("MQClientException", "RemotingTimeoutException", "RemotingConnectException")
)
NOT_FLUSHED = Outcome("FLUSH_DISK_TIMEOUT")


def refused(code: int) -> Outcome:
    return Outcome("MQBrokerException", code)


def play(options: SendOptions, *outcomes: Outcome, took_ms: int = 1) -> Send:
    """Tries at broker-0, broker-1, ... until the send is over; every try takes `took_ms`."""
    send, now_ms = start_send(options, NOW), NOW
    for number, outcome in enumerate(outcomes):
        send = start_try(send, f"broker-{number}", now_ms)
        if send.result:
            return send
        now_ms += took_ms
        send, update = end_try(send, outcome, now_ms)
        assert (update.broker_name, update.current_latency_ms) == (f"broker-{number}", took_ms)
        if send.result:
            return send
    return send


@pytest.mark.parametrize(
    ("outcome", "up_to_5_1_3", "from_5_1_4", "with_detector"),
    [
        (OK, (False, True), (False, True), (False, True)),
        (NOT_FLUSHED, (False, True), (False, True), (False, True)),
        (NO_BROKER, (True, True), (False, True), (False, True)),
        (NO_ANSWER, (True, True), (True, True), (True, False)),
        (NO_CONNECTION, (True, True), (True, True), (True, False)),
        (refused(2), (True, True), (True, False), (True, False)),
    ],
)
def test_what_isolates_a_broker_and_what_makes_it_unreachable(
    outcome: Outcome, up_to_5_1_3: tuple[bool, bool], from_5_1_4: tuple[bool, bool], with_detector: tuple[bool, bool]
) -> None:
    assert judge_broker(outcome, "4.7.1") == judge_broker(outcome, "5.1.3", True) == up_to_5_1_3
    assert judge_broker(outcome, "5.1.4") == judge_broker(outcome) == from_5_1_4
    assert judge_broker(outcome, "5.1.4", True) == judge_broker(outcome, "5.5.0", True) == with_detector


@pytest.mark.parametrize(
    ("version", "codes"),
    [
        ("4.0.0", {1, 14, 16, 17, 204, 205}),
        ("4.9.1", {1, 14, 16, 17, 204, 205}),
        ("4.9.2", {1, 14, 16, 17, 204, 205}),
        ("5.2.0", {1, 14, 16, 17, 204, 205}),
        ("5.3.0", {1, 2, 14, 16, 17, 204, 205}),
        ("5.3.1", {1, 2, 14, 16, 17, 204, 205, 1500}),
    ],
)
def test_retried_response_codes(version: str, codes: set[int]) -> None:
    assert retry_response_codes(version) == codes
    for code in range(2_000):
        send = play(SendOptions(client_version=version), refused(code), OK)
        assert send.result == (OK if code in codes else refused(code))


@pytest.mark.parametrize(
    ("version", "took_ms", "timeouts_ms"),
    [
        ("4.2.0", 3_000, [3_000, 3_000, 3_000]),
        ("4.3.0", 1_000, [3_000, 2_000, 1_000]),
        ("4.3.0", 1_500, [3_000, 1_500, 0]),
    ],
)
def test_tries_share_the_timeout_from_4_3_0(version: str, took_ms: int, timeouts_ms: list[int]) -> None:
    send, reported = start_send(SendOptions(client_version=version), NOW), []
    for number in range(3):
        send = start_try(send, "broker-a", NOW + number * took_ms)
        reported.append(send.timeout_ms)
        send, _ = end_try(send, NO_ANSWER, NOW + (number + 1) * took_ms)
    assert reported == timeouts_ms


@pytest.mark.parametrize(("version", "resets"), [("4.9.8", False), ("5.1.3", False), ("5.1.4", True), ("5.5.0", True)])
def test_a_retry_begins_at_a_new_index_from_5_1_4(version: str, resets: bool) -> None:
    send = start_send(SendOptions(client_version=version), NOW)
    assert not send.resets_index
    assert send.last_broker_name is None
    send, _ = end_try(start_try(send, "broker-a", NOW), NO_ANSWER, NOW)
    assert send.resets_index is resets
    assert send.last_broker_name == "broker-a"


def test_what_was_not_started_cannot_end_and_what_is_no_outcome_is_refused() -> None:
    with pytest.raises(ValueError, match="no try"):
        end_try(start_send(SendOptions(), NOW), OK, NOW)
    with pytest.raises(ValueError, match="TimeoutException"):
        Outcome("TimeoutException")
