"""AllocateMessageQueueStrategy: tests/golden/allocation.txt line by line, then what holds for every group."""

import copy
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.allocation import STRATEGIES, allocate, allocate_all
from udfs.model import MessageQueue

GOLDEN = Path(__file__).parents[1] / "golden" / "allocation.txt"
LINES = [line for line in GOLDEN.read_text().splitlines() if line and not line.startswith("#")]

strategies = st.sampled_from(sorted(STRATEGIES))
queues = st.integers(1, 40).map(lambda count: queues_of(count))  # noqa: PLW0108  # defined below
unique_cids = st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=12, unique=True).map(sorted)
any_cids = st.lists(st.sampled_from("ABCDEF"), min_size=1, max_size=12).map(sorted)


def queues_of(count: int) -> list[MessageQueue]:
    return [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(count)]


def ids_of(text: str) -> list[int]:
    """ "0-2,6" -> [0, 1, 2, 6]; "-" -> []."""
    ids: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        ids += range(int(first), int(last or first) + 1) if first else []
    return ids


@pytest.mark.parametrize("line", LINES)
def test_golden_line(line: str) -> None:
    strategy, count, cids, shares, *starved = (part.strip() for part in line.split("|"))
    mq_all, cid_all = queues_of(int(count.split()[0])), cids.split()
    taken = [[mq.queue_id for mq in allocate(strategy, "g", cid, mq_all, cid_all)] for cid in cid_all]
    assert taken == [ids_of(share) for share in shares.split(";")]
    nobodys = sorted({mq.queue_id for mq in mq_all}.difference(*taken))
    assert nobodys == (ids_of(starved[0].removeprefix("starved")) if starved else [])


@given(strategies, queues, unique_cids)
def test_unique_ids_cover_every_queue_once(strategy: str, mq_all: list[MessageQueue], cid_all: list[str]) -> None:
    taken = [mq for cid in cid_all for mq in allocate(strategy, "g", cid, mq_all, cid_all)]
    assert sorted(taken) == mq_all


@given(strategies, queues, unique_cids)
def test_shares_of_unique_ids_differ_by_one_at_most(
    strategy: str, mq_all: list[MessageQueue], cid_all: list[str]
) -> None:
    sizes = [len(allocate(strategy, "g", cid, mq_all, cid_all)) for cid in cid_all]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@given(strategies, queues, any_cids)
def test_a_twin_starves_exactly_the_slots_of_its_later_indexes(
    strategy: str, mq_all: list[MessageQueue], cid_all: list[str]
) -> None:
    distinct = [f"{index:02}" for index in range(len(cid_all))]
    slots = [allocate(strategy, "g", cid, mq_all, distinct) for cid in distinct]
    later = {mq for index, cid in enumerate(cid_all) if cid_all.index(cid) < index for mq in slots[index]}
    taken = Counter(mq for cid in set(cid_all) for mq in allocate(strategy, "g", cid, mq_all, cid_all))
    assert set(mq_all) - set(taken) == later
    assert set(taken.values()) <= {1}


@given(strategies, queues, any_cids)
def test_allocate_all_is_allocate_for_each(strategy: str, mq_all: list[MessageQueue], cid_all: list[str]) -> None:
    each = {cid: allocate(strategy, "g", cid, mq_all, cid_all) for cid in cid_all}
    assert allocate_all(strategy, "g", mq_all, cid_all) == each


@given(strategies, queues, any_cids, st.randoms(use_true_random=False))
def test_inputs_are_taken_as_they_come_and_left_alone(
    strategy: str, mq_all: list[MessageQueue], cid_all: list[str], random: Random
) -> None:
    random.shuffle(mq_all)
    before = copy.copy(mq_all), copy.copy(cid_all)
    for share in allocate_all(strategy, "g", mq_all, cid_all).values():
        assert share == sorted(share, key=mq_all.index)
    assert (mq_all, cid_all) == before


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_client_that_is_not_listed_takes_nothing(strategy: str) -> None:
    assert allocate(strategy, "g", "stranger", queues_of(8), ["A", "B"]) == []


@pytest.mark.parametrize(
    ("current_cid", "mq_all", "cid_all", "named"),
    [
        ("", queues_of(1), ["A"], "current_cid"),
        (None, queues_of(1), ["A"], "current_cid"),
        ("A", [], ["A"], "mq_all"),
        ("A", None, ["A"], "mq_all"),
        ("A", queues_of(1), [], "cid_all"),
        ("A", queues_of(1), None, "cid_all"),
    ],
)
def test_what_rocketmq_refuses_is_a_value_error(current_cid, mq_all, cid_all, named) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=f"{named}.* is empty"):
        allocate("AVG", "g", current_cid, mq_all, cid_all)


def test_an_unknown_strategy_is_named() -> None:
    with pytest.raises(ValueError, match="'SWAY' of group 'g' is not one of AVG, AVG_BY_CIRCLE"):
        allocate("SWAY", "g", "A", queues_of(1), ["A"])


def test_queue_ids_are_ordered_as_numbers() -> None:
    ids = [10, 9, 2, 1]
    assert [mq.queue_id for mq in sorted(MessageQueue("t", "b", i) for i in ids)] == [1, 2, 9, 10]
