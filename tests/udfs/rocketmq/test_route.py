"""A topic's route: what consumers share out of it, which queue numbers can exist, and where a producer may write."""

import pytest

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.route import QueueData, Route, TopicPublishInfo, to_topic_publish_info


def test_readable_queues_are_sorted_as_clients_sort_them() -> None:
    route = Route("t", (QueueData("broker-b", 2, 2, 6), QueueData("broker-a", 11, 11, 6)))
    assert route.readable_queues() == [
        *(MessageQueue("t", "broker-a", number) for number in range(11)),
        MessageQueue("t", "broker-b", 0),
        MessageQueue("t", "broker-b", 1),
    ]


@pytest.mark.parametrize(("perm", "is_readable"), [(6, True), (4, True), (7, True), (5, True), (2, False), (0, False)])
def test_only_queues_with_the_read_bit_are_shared_out(perm: int, is_readable: bool) -> None:
    assert bool(Route("t", (QueueData("broker-a", 1, 1, perm),)).readable_queues()) == is_readable


def test_two_routes_are_equal_whenever_they_were_said() -> None:
    assert Route("t", (), 1) == Route("t", (), 2)
    assert Route("t", (QueueData("broker-a", 1, 1, 6),), 1) != Route("t", (), 1)


@pytest.mark.parametrize(("read", "write"), [(4, 8), (8, 4)])
def test_write_only_and_read_only_queues_exist(read: int, write: int) -> None:
    route = Route("t", (QueueData("broker-a", read, write, 6),))
    assert (len(route.readable_queues()), route.most_queues()) == (read, {"broker-a": 8})


A, B = QueueData("broker-a", 4, 2, 6), QueueData("broker-b", 1, 2, 6)
BOTH = {"broker-a", "broker-b"}


def names(info: TopicPublishInfo) -> list[str]:
    return [f"{queue.broker_name}:{queue.queue_id}" for queue in info.message_queues]


def test_write_queues_of_brokers_with_a_master_sorted_by_broker() -> None:
    info = to_topic_publish_info("orders", [B, A], BOTH)
    assert names(info) == ["broker-a:0", "broker-a:1", "broker-b:0", "broker-b:1"]
    assert info.message_queues[0] == MessageQueue("orders", "broker-a", 0)
    assert not info.order_topic


@pytest.mark.parametrize(
    ("reason", "datas", "masters"),
    [
        ("no master", [A, B], {"broker-b"}),
        ("not writable", [QueueData("broker-a", 4, 2, 4), B], BOTH),
        ("no write queue", [QueueData("broker-a", 4, 0, 6), B], BOTH),
    ],
)
def test_a_broker_that_cannot_be_written_to_gives_no_queue(
    reason: str, datas: list[QueueData], masters: set[str]
) -> None:
    assert names(to_topic_publish_info("orders", datas, masters)) == ["broker-b:0", "broker-b:1"], reason


def test_order_topic_conf_fixes_the_queues_whatever_the_route_says() -> None:
    info = to_topic_publish_info("orders", [B], {"broker-b"}, "broker-b:1;broker-a:2;")
    assert names(info) == ["broker-b:0", "broker-a:0", "broker-a:1"]
    assert info.order_topic


@pytest.mark.parametrize("conf", ["broker-a", "broker-a:", "broker-a:two", ";", "broker-a:1;;broker-b:1"])
def test_a_conf_of_another_form_is_refused(conf: str) -> None:
    with pytest.raises(ValueError, match="orderTopicConf"):
        to_topic_publish_info("orders", [A], BOTH, conf)


def test_nothing_to_write_to_is_not_ok() -> None:
    assert not to_topic_publish_info("orders", [], BOTH).ok
    assert to_topic_publish_info("orders", [A], BOTH).ok


@pytest.mark.parametrize(("version", "nums"), [("4.9.7", 3), ("4.9.8", 2), ("5.0.0", 3)])
def test_only_4_9_8_passes_over_a_queue_data_that_may_not_be_written(version: str, nums: int) -> None:
    info = to_topic_publish_info("orders", [QueueData("broker-a", 4, 3, 4), A], BOTH)
    assert info.write_queue_nums("broker-a", version) == nums
    assert info.write_queue_nums("broker-b", version) == -1
    assert info.write_queue_nums(None, version) == -1
