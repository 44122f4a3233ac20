"""The queue a producer sends to as rocketmq-client chooses it: seeded random cases, no difference in any release."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from streaming.simulator.producer import select_message_queue_by_hash, string_hash_code
from tests.lab.oracle import MARKS, RELEASES, ask_json, cases
from udfs.rocketmq.fault import FaultItem, only_extends
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.route import QueueData, TopicPublishInfo, to_topic_publish_info
from udfs.rocketmq.selection import select_one_message_queue
from udfs.rocketmq.thread_local_index import MAX_VALUE, MIN_VALUE
from udfs.rocketmq.version import parse_client_version

pytestmark = MARKS

each_release = pytest.mark.parametrize("release", RELEASES)

NOW = 1_700_000_000_000
CASES = 2_500
BROKERS = ("broker-a", "broker-b", "broker-c", "broker-d")

Question = dict[str, Any]


def random_question(random: Random) -> Question:
    """A route, and up to a dozen selections of one thread, FaultItems changing between some of them."""
    brokers = random.choices(BROKERS, k=random.randint(1, 4))
    question: Question = {
        "queue_datas": [
            [broker, random.randint(0, 4), random.randint(0, 4), random.choice((6, 6, 6, 4, 2))] for broker in brokers
        ],
        "masters": [broker for broker in BROKERS if random.random() < 0.8],
        "fault_avoidance": random.random() < 0.8,
        "steps": [random_step(random, is_first=i == 0) for i in range(random.randint(1, 12))],
    }
    if random.random() < 0.15:
        conf = [f"{random.choice(BROKERS)}:{random.randint(0, 3)}" for _ in range(random.randint(1, 3))]
        question["order_topic_conf"] = ";".join(conf) + random.choice(("", ";", ";;"))
    return question


def random_step(random: Random, is_first: bool) -> Question:
    """Latencies differ within a step, so that a shuffle before sorting decides nothing."""
    step: Question = {"last": random.choice((None, None, *BROKERS, "elsewhere"))}
    if is_first or random.random() < 0.3:
        shut_out = random.choice((0.3, 0.8, 1.0))
        step["items"] = [
            [
                broker,
                latency,
                random.choice((60_000, 600_000)) if random.random() < shut_out else random.choice((-60_000, 0)),
                random.random() < 0.5,
            ]
            for broker, latency in zip(
                random.sample((*BROKERS, "gone"), random.randint(0, 5)), random.sample(range(900), 5), strict=False
            )
        ]
    if is_first or random.random() < 0.1:
        near_the_edge = (MAX_VALUE - random.randint(0, 12), MIN_VALUE, -1, -2, 0)
        step["index"] = random.choice((*near_the_edge, *random.choices(range(MIN_VALUE, MAX_VALUE), k=5)))
        step["which_item_worst"] = random.choice((MAX_VALUE - 1, MAX_VALUE, MIN_VALUE, -1, random.randint(0, 99)))
    return step


def fault_items(step: Question, listed: list[str], items: dict[str, FaultItem], release: str) -> dict[str, FaultItem]:
    """The items of this step, as the hash table lists them."""
    for name, latency_ms, start_ms, reachable in step.get("items", ()):
        items[name] = FaultItem(name, latency_ms, NOW + start_ms, reachable or not only_extends(release))
    return {name: items[name] for name in listed}


def publish_info(question: Question) -> TopicPublishInfo:
    return to_topic_publish_info(
        "topic",
        [QueueData(*row) for row in question["queue_datas"]],
        question["masters"],
        question.get("order_topic_conf"),
    )


def rows(info: TopicPublishInfo) -> list[list[Any]]:
    return [row(queue) for queue in info.message_queues]


def row(queue: MessageQueue) -> list[Any]:
    return [queue.broker_name, queue.queue_id]


@each_release
def test_every_sequence_of_selections_takes_the_same_queues(release: str, random: Random) -> None:
    questions = [random_question(random) for _ in range(cases(CASES, release))]
    seen: Counter[str] = Counter()
    for question, answer in zip(questions, ask_json("Selection", release, questions), strict=True):
        is_order_topic, queues, *said = answer
        info = publish_info(question)
        assert (info.order_topic, rows(info)) == (is_order_topic, queues), question
        index, worst, items = 0, 0, dict[str, FaultItem]()
        for step, reported in zip(question["steps"], said, strict=bool(said)):
            items = fault_items(step, reported["listed"], items, release)
            before = info
            selection = select_one_message_queue(
                info,
                step["last"],
                step.get("index", index),
                items,
                NOW,
                release,
                fault_avoidance=question["fault_avoidance"],
                which_item_worst=step.get("which_item_worst", worst),
            )
            assert reported["queue"] == row(selection.message_queue), (question, step)
            assert reported["index"] == selection.next_index, (question, step)
            assert reported["which_item_worst"] == selection.next_which_item_worst, (question, step)
            assert reported["queues"] == rows(selection.info), (question, step)
            assert set(reported["items"]) == set(selection.items), (question, step)
            seen["sent"] += 1
            seen["shared queue rewritten"] += selection.info != before
            seen["item dropped"] += len(selection.items) < len(items)
            info, index, worst = selection.info, selection.next_index, selection.next_which_item_worst
            items = dict(selection.items)
    assert seen["sent"] > len(questions)
    version = parse_client_version(release)
    is_fixed = version >= (5, 1, 4) or (4, 9, 8) <= version < (5, 0, 0)
    assert (seen["shared queue rewritten"] > 0) is not is_fixed
    assert (seen["item dropped"] > 0) is (version < (5, 1, 4))


@pytest.mark.parametrize("release", [name for name in RELEASES if parse_client_version(name) >= (5, 1, 4)])
def test_a_retry_from_5_1_4_begins_anywhere_and_goes_on_alike(release: str, random: Random) -> None:
    """The new index is drawn inside; what was chosen must follow from one that leads to the index kept after it."""
    questions = []
    while len(questions) < cases(500, release):
        question = random_question(random) | {"fault_avoidance": True}
        question["steps"] = [step | {"reset": True} for step in question["steps"]]
        if publish_info(question).ok:
            questions.append(question)
    for question, (_, _, *said) in zip(questions, ask_json("Selection", release, questions), strict=True):
        info, items = publish_info(question), dict[str, FaultItem]()
        for step, reported in zip(question["steps"], said, strict=True):
            items = fault_items(step, reported["listed"], items, release)
            assert reported["index"] > 0
            possible = [
                select_one_message_queue(
                    info, step["last"], reported["index"] - turns, items, NOW, release, fault_avoidance=True
                )
                for turns in range(1, 2 * len(info.message_queues) + 2)
            ]
            assert reported["queue"] in [
                row(one.message_queue) for one in possible if one.next_index == reported["index"]
            ]


@each_release
def test_a_key_in_order_goes_to_the_same_queue(release: str, random: Random) -> None:
    keys: list[int | str] = [MIN_VALUE, MAX_VALUE, -1, 0, "", "polygenelubricants", "\U0001f600 caf\u00e9"]
    keys += [random.randint(MIN_VALUE, MAX_VALUE) for _ in range(cases(1_000, release))]
    keys += [
        "".join(chr(random.randint(32, 0x2FFF)) for _ in range(random.randint(1, 20)))
        for _ in range(cases(1_000, release))
    ]
    questions = [{"hash": key, "queues": queues} for key in keys for queues in (1, 3, 8)]
    for question, said in zip(questions, ask_json("Selection", release, questions), strict=True):
        key = question["hash"]
        queues = [MessageQueue("topic", "broker", i) for i in range(question["queues"])]
        code = string_hash_code(key) if isinstance(key, str) else key
        queue = select_message_queue_by_hash(queues, code, release)
        assert said == (None if queue is None else queue.queue_id), question
