"""SelectMessageQueueByHash at the release that changed it; tests/lab/oracle/test_selection.py has the hash codes."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.simulator.producer import select_message_queue_by_hash
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.thread_local_index import MAX_VALUE, MIN_VALUE


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
