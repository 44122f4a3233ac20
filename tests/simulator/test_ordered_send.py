"""The queue of an ordering key: Java's hash code and SelectMessageQueueByHash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.simulator.producer import select_message_queue_by_hash, string_hash_code
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.thread_local_index import MAX_VALUE, MIN_VALUE


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99_162_322), ("polygenelubricants", MIN_VALUE), ("\U0001f600", 1_772_899)],
)
def test_string_hash_code_is_javas(text: str, code: int) -> None:
    assert string_hash_code(text) == code


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
