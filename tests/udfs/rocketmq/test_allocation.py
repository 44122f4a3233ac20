"""AllocateMessageQueueStrategy: tests/golden/allocation.txt line by line, what RocketMQ refuses, and options."""

from typing import Any

import pytest

from tests.udfs.rocketmq.allocation_lines import LINES, ROOMS, Line, odd_ones
from udfs.rocketmq.allocation import (
    POSITIONAL,
    STRATEGIES,
    UnknownStrategyError,
    allocate,
    allocate_all,
    ring_position,
    room_of,
)
from udfs.rocketmq.model import MessageQueue

CHECKED = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY-AVG")
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


@pytest.mark.parametrize(
    ("current_cid", "mq_all", "cid_all", "named"),
    [
        ("", MQ_ALL, ["A"], "current_cid"),
        (None, MQ_ALL, ["A"], "current_cid"),
        ("A", [], ["A"], "mq_all"),
        ("A", None, ["A"], "mq_all"),
        ("A", MQ_ALL, [], "cid_all"),
        ("A", MQ_ALL, None, "cid_all"),
    ],
)
def test_what_rocketmq_refuses_is_a_value_error(
    current_cid: Any, mq_all: Any, cid_all: Any, named: str, subtests: pytest.Subtests
) -> None:
    refused = f"^{named} of group 'g' is empty"
    for strategy in CHECKED:
        with subtests.test(strategy), pytest.raises(ValueError, match=refused):
            allocate(strategy, "g", current_cid, mq_all, cid_all, **ROOMS)
        if named != "current_cid":
            with subtests.test(strategy, of="all"), pytest.raises(ValueError, match=refused):
                allocate_all(strategy, "g", mq_all, cid_all, **ROOMS)


@pytest.mark.parametrize("client_version", ["4.0.0", "4.7.1", "V4_7_1", (4, 7, 1), "4.8.0", "4.9.2"])
def test_machine_room_up_to_4_9_2_checks_nothing(client_version: Any) -> None:
    def ask(current_cid: Any, mq_all: Any, cid_all: Any) -> list[MessageQueue]:
        return allocate(
            "MACHINE_ROOM", "g", current_cid, mq_all, cid_all, consumer_idcs={"sh"}, client_version=client_version
        )

    assert ask("A", [], ["A"]) == []
    assert ask("A", MQ_ALL, []) == []
    assert ask(None, MQ_ALL, ["A"]) == []
    assert ask("nobody", None, ["A"]) == []
    assert ask("", MQ_ALL, ["", "A"]) == MQ_ALL[:2]
    with pytest.raises(ValueError, match="mq_all of group 'g' is None"):
        ask("A", None, ["A"])
    with pytest.raises(ValueError, match="cid_all of group 'g' is None"):
        ask("A", MQ_ALL, None)


def test_one_room_may_be_given_as_a_string() -> None:
    assert allocate("MACHINE_ROOM", "g", "A", MQ_ALL, ["A"], consumer_idcs="sh") == MQ_ALL
    assert allocate("MACHINE_ROOM", "g", "A", MQ_ALL, ["A"], consumer_idcs="shanghai") == []


@pytest.mark.parametrize(
    ("broker_name", "room"),
    [
        ("sh@a", "sh"),
        ("sh@a@", "sh"),
        ("sh@a@@", "sh"),
        ("@a", ""),
        ("sh@", None),
        ("sh@@a", None),
        ("sh@a@b", None),
        ("sh", None),
        ("@", None),
        ("", None),
    ],
)
def test_a_broker_s_room_is_read_as_java_splits_strings(broker_name: str, room: str | None) -> None:
    assert room_of(broker_name) == room


def test_nearby_names_its_strategy_inside() -> None:
    cid_all = ["sh@1", "sh@2"]

    def ask(strategy: str) -> list[MessageQueue]:
        return allocate(strategy, "g", "sh@1", MQ_ALL, cid_all, **ROOMS)

    by_circle = [MQ_ALL[0], MQ_ALL[2]]
    assert ask("MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE") == by_circle
    assert ask("MACHINE_ROOM_NEARBY-MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE") == by_circle
    with pytest.raises(ValueError, match="names no strategy inside"):
        ask("MACHINE_ROOM_NEARBY")
    with pytest.raises(UnknownStrategyError, match="'SWAY' of group 'g' is not one of AVG, AVG_BY_CIRCLE, CONFIG"):
        ask("MACHINE_ROOM_NEARBY-SWAY")


@pytest.mark.parametrize("missing", sorted(ROOMS))
def test_nearby_needs_both_rooms(missing: str) -> None:
    rooms = {name: room for name, room in ROOMS.items() if name != missing}
    with pytest.raises(ValueError, match="needs broker_room and client_room"):
        allocate("MACHINE_ROOM_NEARBY-AVG", "g", "sh@1", MQ_ALL, ["sh@1"], **rooms)


def test_nearby_cannot_add_up_a_list_that_was_never_set() -> None:
    with pytest.raises(ValueError, match="config_queues is not set"):
        allocate("MACHINE_ROOM_NEARBY-CONFIG", "g", "sh@1", MQ_ALL, ["sh@1"], **ROOMS)


def test_config_answers_its_list_whatever_it_is_asked() -> None:
    nothing: Any = None
    assert allocate("CONFIG", nothing, nothing, nothing, nothing, config_queues=MQ_ALL) == MQ_ALL
    assert allocate("CONFIG", "g", "nobody", [], [], config_queues=MQ_ALL[:1]) == MQ_ALL[:1]
    assert allocate("CONFIG", "g", "A", MQ_ALL, ["A"]) == []
    assert allocate_all("CONFIG", "g", [], ["A", "B"], config_queues=MQ_ALL) == {"A": MQ_ALL, "B": MQ_ALL}
    assert allocate_all("CONFIG", "g", MQ_ALL, nothing, config_queues=MQ_ALL) == {}


def test_an_option_that_no_strategy_has_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="virtual_node_cnt"):
        allocate("CONSISTENT_HASH", "g", "A", MQ_ALL, ["A"], virtual_node_cnt=3)


def test_the_empty_client_id_has_no_share_in_a_group() -> None:
    assert allocate_all("AVG", "g", MQ_ALL, ["", "A"]) == {"A": MQ_ALL[2:]}


def test_a_ring_position_is_the_first_four_bytes_of_an_md5() -> None:
    """What `printf ... | md5sum` prints; the key is read as UTF-8, and a lone surrogate as "?"."""
    assert ring_position("") == 0xD41D8CD9
    assert ring_position("\u5ba2\u6237") == 0xFF0B2077
    assert ring_position("\ud83d") == ring_position("?") == 0xD1457B72


def test_queue_ids_are_ordered_as_numbers() -> None:
    ids = [10, 9, 2, 1]
    assert [mq.queue_id for mq in sorted(MessageQueue("t", "b", i) for i in ids)] == [1, 2, 9, 10]
