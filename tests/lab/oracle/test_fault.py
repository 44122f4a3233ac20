"""MQFaultStrategy as rocketmq-client answers for it: seeded random cases, and no difference in any release."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from tests.lab.oracle import MARKS, RELEASES, ask, ask_json, cases
from udfs.rocketmq.fault import (
    FaultItem,
    compute_not_available_duration,
    is_available,
    only_extends,
    order_fault_items,
    pick_one_at_least,
    update_fault_item,
)
from udfs.rocketmq.thread_local_index import MAX_VALUE, MIN_VALUE, increment_and_get
from udfs.rocketmq.version import parse_client_version

pytestmark = [*MARKS, pytest.mark.parametrize("release", RELEASES)]

NOW = 1_700_000_000_000
EDGES = (50, 100, 550, 1_000, 1_800, 2_000, 3_000, 5_000, 10_000, 15_000, 30_000)
LATENCIES = sorted({edge + offset for edge in EDGES for offset in (-1, 0, 1)} | {0, 3, 10**9, 2**62})
PASSES = (0, 1_000, 2_000, 3_000, 5_000, 6_000, 10_000, 29_000, 30_000, 60_000, 180_000, 599_000, 600_000)
"""Whole seconds: an item's time has come or has not, whatever the milliseconds a question takes."""

Item = list[Any]
"""[name, current_latency_ms, start_timestamp_ms - now, reachable]"""


def random_items(random: Random, are_distinct: bool = False) -> list[Item]:
    """Up to eight FaultItems, some of them alike unless `are_distinct`."""
    count = random.randint(0, 8)
    latencies = random.sample(range(100), count) if are_distinct else random.choices((3, 7, 600), k=count)
    starts = random.choices((-600_000, -1, 0, 60_000, 60_001, 600_000), k=count)
    return [
        [f"broker-{i}", latency, start, random.random() < 0.7]
        for i, latency, start in zip(random.sample(range(30), count), latencies, starts, strict=True)
    ]


def fault_items(items: Iterable[Item], release: str) -> dict[str, FaultItem]:
    return {
        name: FaultItem(name, latency_ms, NOW + start_ms, reachable or not only_extends(release))
        for name, latency_ms, start_ms, reachable in items
    }


def random_index(random: Random) -> int:
    return random.choice((MAX_VALUE, MIN_VALUE, MAX_VALUE - 1, -1, 0, random.randint(MIN_VALUE, MAX_VALUE)))


def test_every_latency_gives_the_same_duration(release: str, random: Random) -> None:
    latencies = [*LATENCIES, *(random.randint(0, 40_000) for _ in range(cases(3_000, release)))]
    said = ask_json("Fault", release, ({"ask": "duration", "latency": latency} for latency in latencies))
    assert said == [compute_not_available_duration(latency, release) for latency in latencies]


def random_updates(random: Random) -> list[dict[str, Any]]:
    return [
        {
            "pass": random.choice(PASSES),
            "name": f"broker-{random.randrange(3)}",
            "latency": random.choice(LATENCIES),
            "isolation": random.random() < 0.3,
            "reachable": random.random() < 0.7,
        }
        for _ in range(random.randint(1, 12))
    ]


def test_every_sequence_of_updates_leaves_the_same_items(release: str, random: Random) -> None:
    sequences = [random_updates(random) for _ in range(cases(3_000, release))]
    answers = ask_json("Fault", release, ({"ask": "update", "steps": steps} for steps in sequences))
    for steps, said in zip(sequences, answers, strict=True):
        now_ms, items = NOW, dict[str, FaultItem]()
        for step in steps:
            now_ms, name = now_ms + step["pass"], step["name"]
            items[name] = update_fault_item(
                items.get(name), name, step["latency"], step["isolation"], step["reachable"], now_ms, release
            )
        assert {item[0] for item in said["items"]} == set(items), steps
        assert said["slop"] < 10_000, "too slow to tell time apart"
        for name, latency_ms, start_ms, reachable, available in said["items"]:
            item = items[name]
            assert (latency_ms, reachable) == (item.current_latency_ms, item.reachable), steps
            assert available == is_available(item, now_ms, release), steps
            if start_ms is None:
                assert item.start_timestamp_ms == 0, steps
            else:
                assert 0 <= item.start_timestamp_ms - now_ms - start_ms <= said["slop"], steps


def test_items_are_in_the_same_order(release: str, random: Random) -> None:
    tables = [random_items(random) for _ in range(cases(3_000, release))]
    said = ask_json("Fault", release, ({"ask": "order", "items": items} for items in tables))
    for items, names in zip(tables, said, strict=True):
        ordered = order_fault_items(fault_items(items, release).values(), NOW, release)
        assert names == [item.name for item in ordered], items


def test_the_index_goes_on_alike_at_the_edges_of_an_int(release: str, random: Random) -> None:
    indexes = [random_index(random) for _ in range(cases(3_000, release))]
    said = ask("Fault", release, ({"ask": "index", "index": index} for index in indexes))
    for index, answer in zip(indexes, said, strict=True):
        value, kept = map(int, answer.split())
        assert (value, kept) == increment_and_get(index, release), index


def test_pick_one_at_least_takes_the_same_broker(release: str, random: Random) -> None:
    """One call a question where no random number decides; where one does, thirty, and each pick must be possible."""
    questions = [
        {"ask": "pick", "items": random_items(random, i % 2 == 0), "index": random_index(random), "calls": 30}
        for i in range(cases(2_000, release))
    ]
    is_hashed = (4, 9, 4) <= parse_client_version(release) < (5, 1, 4)
    told_apart = 0
    for case, said in zip(questions, ask_json("Fault", release, questions), strict=True):
        items = fault_items(case["items"], release)
        listed = [items[name] for name in said["listed"]]
        index, kept = case["index"], case["index"]
        if len(listed) > 1 and parse_client_version(release) < (5, 1, 4):
            index, kept = increment_and_get(kept, release)
        assert said["kept"] == kept, case
        possible = {pick_one_at_least(listed, NOW, release, index)}
        if not is_hashed:
            for _ in range(200):
                random.shuffle(listed)
                possible.add(pick_one_at_least(listed, NOW, release, index))
        assert set(said["picked"]) <= possible, case
        told_apart += len(possible) < max(1, len(listed))
    assert told_apart > len(questions) // 3, "the cases let any broker pass"
