"""ASYNC sends by release: what is recorded when the answer comes, or cannot come, and which of them are tried again."""

import pytest

from udfs.async_send import AsyncSend, end_async_try, retry_at
from udfs.send import FaultUpdate, Outcome

OK, REFUSED = Outcome("SEND_OK"), Outcome("MQBrokerException", 2)
NO_ANSWER, TOO_MUCH = Outcome("RemotingTimeoutException"), Outcome("RemotingTooMuchRequestException")
NO_CONNECTION, INTERRUPTED = Outcome("RemotingConnectException"), Outcome("InterruptedException")
RELEASES = ("4.0.0", "4.7.1", "4.9.2", "4.9.3", "4.9.8", "5.1.3", "5.1.4", "5.2.0", "5.3.0", "5.3.2", "5.5.0")


def test_an_answer_ends_it_and_only_a_refusal_isolates(subtests: pytest.Subtests) -> None:
    for version in RELEASES:
        with subtests.test(version):
            send = AsyncSend("broker-a", 3_000, version)
            ended, update = end_async_try(send, OK, 7)
            assert (ended.result, update) == (OK, FaultUpdate("broker-a", 7, False, True))
            ended, update = end_async_try(send, REFUSED, 7)
            assert (ended.result, update) == (REFUSED, FaultUpdate("broker-a", 7, True, True))


def test_a_lost_answer_is_tried_again_twice_and_isolates_a_reachable_broker(subtests: pytest.Subtests) -> None:
    for version in RELEASES:
        with subtests.test(version):
            send = AsyncSend("broker-a", 3_000, version)
            for number in range(2):
                send, update = end_async_try(send, NO_ANSWER, 100)
                assert update == FaultUpdate(f"broker-{'ab'[number]}", 100, True, True)
                assert send.result is None
                send = retry_at(send, "broker-b")
            send, _ = end_async_try(send, NO_ANSWER, 100)
            assert send.result == Outcome("MQClientException")


@pytest.mark.parametrize(("version", "left_ms"), [("4.3.0", 0), ("4.6.1", 0), ("4.7.0", 2_900), ("5.5.0", 2_900)])
def test_up_to_4_6_1_a_retry_has_no_time_at_all(version: str, left_ms: int) -> None:
    send, _ = end_async_try(AsyncSend("broker-a", 3_000, version), NO_ANSWER, 100)
    assert send.timeout_ms == left_ms


@pytest.mark.parametrize(("version", "is_retried"), [("5.3.1", True), ("5.3.2", False), ("5.5.0", False)])
def test_from_5_3_2_nothing_is_tried_again_when_the_time_is_over(version: str, is_retried: bool) -> None:
    send, _ = end_async_try(AsyncSend("broker-a", 3_000, version), NO_ANSWER, 3_000)
    assert (send.result is None) is is_retried


@pytest.mark.parametrize(("version", "is_retried"), [("4.9.8", True), ("5.2.0", True), ("5.3.0", False)])
def test_from_5_3_0_too_many_requests_end_it(version: str, is_retried: bool) -> None:
    send, _ = end_async_try(AsyncSend("broker-a", 3_000, version), TOO_MUCH, 5)
    assert (send.result is None) is is_retried


@pytest.mark.parametrize(("version", "reachable"), [("4.9.3", True), ("5.1.3", True), ("5.1.4", False)])
def test_from_4_9_3_a_try_that_was_not_handed_over_is_tried_again(version: str, reachable: bool) -> None:
    for outcome in (NO_CONNECTION, TOO_MUCH, INTERRUPTED):
        send, update = end_async_try(AsyncSend("broker-a", 3_000, version), outcome, 5, handed_over=False)
        assert (send.result, update) == (None, FaultUpdate("broker-a", 5, True, reachable))


def test_up_to_4_9_2_the_broker_before_is_blamed_for_a_retry_that_was_not_handed_over() -> None:
    send, _ = end_async_try(AsyncSend("broker-a", 3_000, "4.9.2"), NO_ANSWER, 5)
    send = retry_at(send, "broker-b")
    failed, update = end_async_try(send, NO_CONNECTION, 5, handed_over=False)
    assert (failed.result, update) == (None, FaultUpdate("broker-a", 3_000, True, True))
    for outcome in (TOO_MUCH, INTERRUPTED):
        ended, update = end_async_try(send, outcome, 5, handed_over=False)
        assert (ended.result, update) == (outcome, None)


def test_up_to_4_9_2_a_first_try_that_was_not_handed_over_is_not_asked_about_here() -> None:
    with pytest.raises(ValueError, match="sendDefaultImpl"):
        end_async_try(AsyncSend("broker-a", 3_000, "4.9.2"), NO_CONNECTION, 5, handed_over=False)
