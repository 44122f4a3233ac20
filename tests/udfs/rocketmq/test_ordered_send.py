"""Messages in order when a broker is down: globally ordered ones stop, locally ordered ones move or stop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.ordered_send import (
    KEPT,
    MOVED,
    STOPPED,
    is_globally_ordered,
    judge_order,
    select_message_queue_by_hash,
    string_hash_code,
)
from udfs.rocketmq.route import QueueData
from udfs.rocketmq.thread_local_index import MAX_VALUE, MIN_VALUE
from udfs.rocketmq.topic_publish_info import to_topic_publish_info

A, B = QueueData("broker-a", 2, 2, 6), QueueData("broker-b", 2, 2, 6)
BOTH, ONLY_A = {"broker-a", "broker-b"}, {"broker-a"}
KEYS = range(-50, 50)


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99_162_322), ("polygenelubricants", MIN_VALUE), ("\U0001f600", 1_772_899)],
)
def test_string_hash_code_is_javas(text: str, code: int) -> None:
    assert string_hash_code(text) == code


def test_globally_ordered_messages_stop_with_their_broker() -> None:
    one = QueueData("broker-b", 1, 1, 6)
    info = to_topic_publish_info("orders", [one], BOTH, "broker-b:1")
    assert is_globally_ordered(info)
    assert {judge_order(key, info, info, BOTH) for key in KEYS} == {KEPT}
    assert {judge_order(key, info, info, ONLY_A) for key in KEYS} == {STOPPED}


def test_with_order_topic_conf_the_keys_of_a_down_broker_stop_and_no_other_key_notices() -> None:
    conf = "broker-a:2;broker-b:2"
    before = to_topic_publish_info("orders", [A, B], BOTH, conf)
    after = to_topic_publish_info("orders", [A], ONLY_A, conf)
    fates = {key: judge_order(key, before, after, ONLY_A) for key in KEYS}
    assert {key for key, fate in fates.items() if fate == STOPPED} == {key for key in KEYS if abs(key) % 4 in (2, 3)}
    assert set(fates.values()) == {KEPT, STOPPED}


def test_without_it_the_list_shrinks_and_keys_move_even_from_the_broker_that_is_well() -> None:
    before = to_topic_publish_info("orders", [A, B], BOTH)
    after = to_topic_publish_info("orders", [A], ONLY_A)
    fates = {key: judge_order(key, before, after, ONLY_A) for key in KEYS}
    assert set(fates.values()) == {KEPT, MOVED}
    assert {key for key, fate in fates.items() if fate == MOVED} == {key for key in KEYS if abs(key) % 4 in (2, 3)}
    back = {key: judge_order(key, after, before, BOTH) for key in KEYS}
    assert back == fates, "they move once more when the broker comes back"


def test_until_the_route_changes_the_keys_of_a_down_broker_fail_either_way() -> None:
    info = to_topic_publish_info("orders", [A, B], BOTH)
    assert {judge_order(key, info, info, ONLY_A) for key in KEYS} == {KEPT, STOPPED}


def test_when_no_queue_is_left_everything_stops() -> None:
    before, after = to_topic_publish_info("orders", [A], ONLY_A), to_topic_publish_info("orders", [A], set())
    assert judge_order(1, before, after, ONLY_A) == STOPPED


@given(st.integers(MIN_VALUE, MAX_VALUE), st.integers(1, 64))
def test_a_key_has_one_queue_whatever_its_sign_and_release(code: int, size: int) -> None:
    queues = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(size)]
    new, old = (select_message_queue_by_hash(queues, code, version) for version in ("4.8.0", "4.7.1"))
    assert new is not None
    assert new.queue_id == abs(code) % size
    if code == MIN_VALUE and abs(code) % size:
        assert old is None, "up to 4.7.1 it throws"
    else:
        assert old == new
