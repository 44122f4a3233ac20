"""What holds for every group, by named properties; the nearby strategies and machine rooms draw their rooms too."""

import copy
from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.udfs.rocketmq.allocation_lines import ROOMS
from udfs.rocketmq.allocation import POSITIONAL, allocate, allocate_all
from udfs.rocketmq.model import MessageQueue

OPTIONS: dict[str, Any] = {"consumer_idcs": {"sh", "hz"}, **ROOMS}

positional = st.sampled_from(sorted(POSITIONAL))
nearby = st.sampled_from(["MACHINE_ROOM_NEARBY-AVG", "MACHINE_ROOM_NEARBY-CONSISTENT_HASH"])
every_strategy = st.one_of(positional, nearby, st.sampled_from(["CONSISTENT_HASH", "MACHINE_ROOM"]))
queues = st.lists(
    st.builds(MessageQueue, st.just("orders"), st.sampled_from(["sh@a", "hz@b", "bj@c"]), st.integers(0, 15)),
    min_size=1,
    max_size=40,
    unique=True,
).map(sorted)
cids = st.builds("{}@{}".format, st.sampled_from(["sh", "hz", "gz"]), st.integers(0, 12))
any_cids = st.lists(cids, min_size=1, max_size=12).map(sorted)


@given(st.one_of(positional, st.just("MACHINE_ROOM")), queues, any_cids)
def test_a_twin_starves_exactly_the_slots_of_its_later_indexes(
    strategy: str, mq_all: list[MessageQueue], cid_all: list[str]
) -> None:
    distinct = [f"{index:02}" for index in range(len(cid_all))]
    slots = [allocate(strategy, "g", cid, mq_all, distinct, **OPTIONS) for cid in distinct]
    later = {mq for index, cid in enumerate(cid_all) if cid_all.index(cid) < index for mq in slots[index]}
    taken = Counter(mq for cid in set(cid_all) for mq in allocate(strategy, "g", cid, mq_all, cid_all, **OPTIONS))
    assert {mq for slot in slots for mq in slot} - set(taken) == later
    assert set(taken.values()) <= {1}


@given(every_strategy, queues, any_cids, st.sampled_from(["4.7.1", "4.9.8", "5.5.0"]))
def test_allocate_all_is_allocate_for_each(
    strategy: str, mq_all: list[MessageQueue], cid_all: list[str], client_version: str
) -> None:
    options = {"client_version": client_version, **OPTIONS}
    each = {cid: allocate(strategy, "g", cid, mq_all, cid_all, **options) for cid in cid_all}
    assert allocate_all(strategy, "g", mq_all, cid_all, **options) == each


@given(every_strategy, queues, any_cids, st.randoms(use_true_random=False))
def test_inputs_are_taken_as_they_come_and_left_alone(
    strategy: str, mq_all: list[MessageQueue], cid_all: list[str], random: Random
) -> None:
    random.shuffle(mq_all)
    random.shuffle(cid_all)
    before = copy.copy(mq_all), copy.copy(cid_all)
    shares = allocate_all(strategy, "g", mq_all, cid_all, **OPTIONS)
    for share in shares.values():
        share.clear()
    assert (mq_all, cid_all) == before
    assert allocate_all(strategy, "g", tuple(mq_all), tuple(cid_all), **OPTIONS).keys() == shares.keys()
