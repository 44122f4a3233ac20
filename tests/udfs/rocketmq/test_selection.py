"""selectOneMessageQueue by release: round robin, retries, and what is left when no broker is available.

tests/lab/oracle/test_selection.py plays threads of selections against RocketMQ.
"""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from udfs.rocketmq.fault import FaultItem, is_available
from udfs.rocketmq.route import QueueData, TopicPublishInfo, to_topic_publish_info
from udfs.rocketmq.selection import Selection, select_one_message_queue
from udfs.rocketmq.thread_local_index import MAX_VALUE, MIN_VALUE
from udfs.rocketmq.version import parse_client_version

NOW = 1_700_000_000_000
RELEASES = ("4.0.0", "4.7.1", "4.8.0", "4.9.3", "4.9.7", "4.9.8", "5.0.0", "5.1.0", "5.1.3", "5.1.4", "5.2.0", "5.5.0")
BROKERS = ("broker-a", "broker-b", "broker-c")

releases = st.sampled_from(RELEASES)
indexes = st.integers(MIN_VALUE, MAX_VALUE)


def info_of(*brokers: str, write_queue_nums: int = 2) -> TopicPublishInfo:
    return to_topic_publish_info("orders", [QueueData(name, 2, write_queue_nums, 6) for name in brokers], set(brokers))


def item(name: str, out_ms: int = 0, latency_ms: int = 3, reachable: bool = True) -> FaultItem:
    return FaultItem(name, latency_ms, NOW + out_ms, reachable)


def items_of(*items: FaultItem) -> dict[str, FaultItem]:
    return {one.name: one for one in items}


def avoiding(
    version: str,
    items: Mapping[str, FaultItem],
    last: str | None = None,
    index: int = -1,
    info: TopicPublishInfo = info_of("broker-a", "broker-b"),  # noqa: B008  # frozen
) -> Selection:
    return select_one_message_queue(info, last, index, items, NOW, version, fault_avoidance=True)


def name(selection: Selection) -> str:
    return f"{selection.message_queue.broker_name}:{selection.message_queue.queue_id}"


@given(releases, indexes, st.sampled_from(BROKERS))
def test_without_fault_avoidance_a_retry_goes_to_another_broker(version: str, index: int, last: str) -> None:
    assume(version not in ("4.8.0", "4.9.3") or not abs(index) >= MAX_VALUE - 6)  # they turn back at the overflow
    selection = select_one_message_queue(info_of(*BROKERS), last, index, client_version=version)
    assert selection.message_queue.broker_name != last


@given(releases, indexes, st.sets(st.sampled_from(BROKERS), max_size=2))
def test_a_first_try_goes_to_an_available_broker(version: str, index: int, out: set[str]) -> None:
    items = items_of(*(item(broker, 5_000 if broker in out else 0) for broker in BROKERS))
    assume(version not in ("5.1.0", "5.1.3") or (index + 1) & MAX_VALUE < MAX_VALUE - 6)  # where the int overflows
    assert avoiding(version, items, None, index, info_of(*BROKERS)).message_queue.broker_name not in out


@pytest.mark.parametrize(
    ("version", "taken"),
    [
        ("4.7.1", {"broker-a"}),
        ("4.8.0", {"broker-a", "broker-b"}),
        ("4.9.8", {"broker-a", "broker-b"}),
        ("5.1.0", {"broker-a", "broker-b"}),
        ("5.1.1", {"broker-b"}),
        ("5.1.4", {"broker-b"}),
        ("5.5.0", {"broker-b"}),
    ],
)
def test_a_retry_stays_may_stay_or_must_not_stay_with_the_broker_that_failed(version: str, taken: set[str]) -> None:
    """It is still available: the failed try was quick enough. Up to 4.7.1 the retry even insists on it (#1607)."""
    assert {avoiding(version, {}, "broker-a", index).message_queue.broker_name for index in range(20)} == taken


@pytest.mark.parametrize(
    ("version", "corrupted"), [("4.7.1", True), ("4.9.7", True), ("4.9.8", False), ("5.0.0", True), ("5.1.3", True)]
)
def test_the_broker_picked_when_none_is_available_is_written_into_the_shared_list(
    version: str, corrupted: bool
) -> None:
    """#7779: 4.9.8 makes a queue of its own. Until the route changes, the slot sends to the other broker."""
    items = items_of(item("broker-a", 60_000, 700), item("broker-b", 30_000, 600))
    selection = avoiding(version, items, index=2)
    assert name(selection) == "broker-b:1"
    brokers = Counter(queue.broker_name for queue in selection.info.message_queues)
    assert brokers == ({"broker-a": 1, "broker-b": 3} if corrupted else {"broker-a": 2, "broker-b": 2})
    assert selection.next_index == 5, "the search, the slot and the queue number take a turn each"


def test_5_1_4_alone_avoids_an_unreachable_broker_whose_time_is_over() -> None:
    items = items_of(item("broker-a", -60_000, reachable=False))
    taken = {
        version: {avoiding(version, items, index=at).message_queue.broker_name for at in range(8)}
        for version in ("5.1.4", "5.2.0")
    }
    assert taken == {"5.1.4": {"broker-b"}, "5.2.0": {"broker-a", "broker-b"}}


def test_5_1_0_to_5_1_3_stop_searching_where_the_int_overflows() -> None:
    """The exception is logged and plain round robin takes the next queue, available or not."""
    items = items_of(item("broker-a", 60_000), item("broker-b"), item("broker-c", 60_000))
    taken = {
        version: avoiding(version, items, None, MAX_VALUE - 4, info_of(*BROKERS)).message_queue.broker_name
        for version in ("5.0.0", "5.1.0", "5.1.3", "5.1.4")
    }
    assert taken == {"5.0.0": "broker-b", "5.1.0": "broker-c", "5.1.3": "broker-c", "5.1.4": "broker-b"}


@given(releases, indexes, st.lists(st.tuples(st.sampled_from(BROKERS), st.booleans(), st.booleans()), max_size=5))
def test_every_selection_gives_a_queue_of_a_known_broker_and_changes_nothing_it_was_given(
    version: str, index: int, known: list[tuple[str, bool, bool]]
) -> None:
    items = items_of(*(item(broker, 5_000 if is_out else 0, reachable=up) for broker, is_out, up in known))
    before, info = dict(items), info_of(*BROKERS)
    selection = select_one_message_queue(info, None, index, items, NOW, version, fault_avoidance=True)
    assert selection.message_queue.broker_name in BROKERS
    assert items == before
    assert info == info_of(*BROKERS)
    assert MIN_VALUE <= selection.next_index <= MAX_VALUE
    if parse_client_version(version) >= (5, 1, 4) and any(
        is_available(items.get(broker), NOW, version) for broker in BROKERS
    ):
        assert is_available(items.get(selection.message_queue.broker_name), NOW, version)


def test_a_topic_without_queues_is_refused(subtests: pytest.Subtests) -> None:
    for version in RELEASES:
        with subtests.test(version), pytest.raises(ValueError, match="no queue"):
            select_one_message_queue(info_of(), None, 0, client_version=version)
