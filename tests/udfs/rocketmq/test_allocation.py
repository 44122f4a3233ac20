"""AllocateMessageQueueStrategy: tests/golden/allocation.txt line by line, and options.

tests/lab/oracle/test_allocation.py asks RocketMQ for the same, and for what it refuses.
"""

import pytest

from tests.udfs.rocketmq.allocation_lines import LINES, ROOMS, Line, odd_ones
from udfs.rocketmq.allocation import POSITIONAL, STRATEGIES, UnknownStrategyError, allocate, allocate_all
from udfs.rocketmq.model import MessageQueue

MQ_ALL = [MessageQueue("orders", "sh@a", queue_id) for queue_id in range(4)]


@pytest.mark.parametrize("text", LINES)
def test_golden_line(text: str) -> None:
    line = Line.read(text)
    taken = line.taken()
    assert taken == line.shares
    assert odd_ones(taken, len(line.mq_all)) == (line.starved, line.doubled)


def test_every_strategy_has_golden_lines() -> None:
    families = {name.partition("-")[0] for text in LINES for name in Line.read(text).strategies}
    assert families == set(STRATEGIES)
    assert set(POSITIONAL) < families


def test_one_room_may_be_given_as_a_string() -> None:
    assert allocate("MACHINE_ROOM", "g", "A", MQ_ALL, ["A"], consumer_idcs="sh") == MQ_ALL
    assert allocate("MACHINE_ROOM", "g", "A", MQ_ALL, ["A"], consumer_idcs="shanghai") == []


@pytest.mark.parametrize(("client_version", "is_checked"), [("4.0.0", False), ("4.9.2", False), ("4.9.3", True)])
def test_machine_room_checks_its_arguments_from_4_9_3(client_version: str, is_checked: bool) -> None:
    def ask() -> list[MessageQueue]:
        return allocate("MACHINE_ROOM", "g", "A", [], ["A"], consumer_idcs={"sh"}, client_version=client_version)

    if is_checked:
        with pytest.raises(ValueError, match="mq_all of group 'g' is empty"):
            ask()
    else:
        assert ask() == []


def test_a_strategy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="names no strategy inside"):
        allocate("MACHINE_ROOM_NEARBY", "g", "sh@1", MQ_ALL, ["sh@1"], **ROOMS)
    with pytest.raises(UnknownStrategyError, match="'SWAY' of group 'g' is not one of AVG, AVG_BY_CIRCLE, CONFIG"):
        allocate("MACHINE_ROOM_NEARBY-SWAY", "g", "sh@1", MQ_ALL, ["sh@1"], **ROOMS)


def test_an_option_that_no_strategy_has_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="virtual_node_cnt"):
        allocate("CONSISTENT_HASH", "g", "A", MQ_ALL, ["A"], virtual_node_cnt=3)


def test_the_empty_client_id_has_no_share_in_a_group() -> None:
    assert allocate_all("AVG", "g", MQ_ALL, ["", "A"]) == {"A": MQ_ALL[2:]}
