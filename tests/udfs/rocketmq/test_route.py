"""A topic's route: what consumers share out of it, and which queue numbers can exist."""

import pytest

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.route import QueueData, Route


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
