"""Allocation as rocketmq-client answers it: seeded random groups, odd ones included, in each release."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.lab.oracle import MARKS, RELEASES, ask, cases
from tests.udfs.rocketmq.allocation_lines import LINES, Line
from udfs.rocketmq.allocation import allocate
from udfs.rocketmq.model import MessageQueue

pytestmark = MARKS

CASES = 6_000
PLAIN = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM", "CONFIG")
STRATEGIES = (*PLAIN, *(f"MACHINE_ROOM_NEARBY-{inner}" for inner in (*PLAIN, "MACHINE_ROOM_NEARBY-AVG")))

BROKERS = ("broker-a", "broker-b", "room1@a", "room2@a", "room1@b", "room1@b@", "room1@@b", "room1@a@b", "@a", "@", "")
CLIENTS = ("10.0.0.1@7", "10.0.0.2@7", "a", "A", "b", "a-1", "caf\u00e9", "\u5ba2\u6237", "\U0001f600", "\ud83d", " ")
ROOMS = ("room1", "room2", "Room1", "room1 ", "\u673a\u623f", "\uff5e", "\U0001f600")
"""The last two sort the other way round by UTF-16 units than by code points."""

MEETING_ON_THE_RING = (["c601", "c1081"], ["c1081", "c601"], ["c601", "c1081", "c601"], ["c1081", "c1081", "c601"])
"""c601-6 and c1081-3 have one position on the ring."""

Question = dict[str, Any]


def random_question(random: Random) -> Question:
    """One client's question to one strategy; about one in eight breaks a rule of the arguments."""
    topics = random.choice((["orders"], ["orders"], ["orders", "%RETRY%g"]))
    brokers = random.choices(random.choice((BROKERS, BROKERS[2:6])), k=random.randint(1, 4))
    mq_all = [
        [random.choice(topics), random.choice(brokers), random.randrange(40)] for _ in range(random.randint(1, 40))
    ]
    pool = random.choice((CLIENTS, [f"10.0.0.{i}@{random.randrange(9)}" for i in range(30)]))
    cid_all = random.choices(pool, k=random.randint(1, 12))
    if random.random() < 0.6:
        mq_all.sort()
        cid_all.sort()
    rooms = random.sample(ROOMS, random.randint(1, 4))
    broker_room = {broker: random.choice(rooms) for broker in brokers}
    client_room = {cid: random.choice(rooms) for cid in cid_all}
    if random.random() < 0.1:
        of, odd = random.choice((broker_room, client_room)), random.choice(("", None))
        of[random.choice(list(of))] = odd
    question: Question = {
        "strategy": random.choice(STRATEGIES),
        "current_cid": random.choice(cid_all),
        "mq_all": mq_all,
        "cid_all": cid_all,
        "mq_rooms": [broker_room[broker] for _, broker, _ in mq_all],
        "cid_rooms": [client_room[cid] for cid in cid_all],
    }
    if random.random() < 0.8:
        question["consumer_idcs"] = random.choice((["room1"], ["room2", "room1"], ["", "room1"], []))
    if random.random() < 0.5:
        question["virtual_nodes"] = random.choice((-1, 0, 1, 2, 3, 10, 25))
    if random.random() < 0.8:
        question["config_queues"] = random.choices(range(len(mq_all)), k=random.randint(0, 5))
    spoil = random.random()
    if spoil < 0.05:
        question["current_cid"] = random.choice(("nobody", "", None))
    elif spoil < 0.1:
        name = random.choice(("mq_all", "cid_all"))
        question[name] = random.choice(([], None))
        if name == "mq_all":
            question.pop("config_queues", None)
    elif spoil < 0.12:
        del question["mq_rooms"]
    return question


def answer(question: Question, release: str) -> list[int] | str:
    """The share as positions in mq_all, or "refused"."""
    mq_all = None if question["mq_all"] is None else [MessageQueue(*row) for row in question["mq_all"]]
    options: dict[str, Any] = {name: question[name] for name in ("consumer_idcs", "virtual_nodes") if name in question}
    if "config_queues" in question:
        options["config_queues"] = [mq_all[position] for position in question["config_queues"]]
    if "mq_rooms" in question:
        options["broker_room"] = dict(zip(mq_all or (), question["mq_rooms"], strict=False)).get
        options["client_room"] = dict(zip(question["cid_all"] or (), question["cid_rooms"], strict=False)).get
    try:
        share = allocate(
            question["strategy"],
            "group",
            question["current_cid"],
            mq_all,  # type: ignore[arg-type]  # None is one of the questions
            question["cid_all"],
            client_version=release,
            **options,
        )
    except ValueError:
        return "refused"
    return [mq_all.index(mq) for mq in share]


def java_answer(text: str, mq_all: list[list[Any]] | None) -> list[int] | str:
    if text in ("!IllegalArgumentException", "!NullPointerException"):
        return "refused"
    if text in ("", "null"):  # RebalanceImpl takes null for an empty share
        return []
    return [mq_all.index(mq_all[int(position)]) for position in text.split(",")]


def differences(questions: list[Question], release: str) -> tuple[list[Any], Counter[str]]:
    """The questions that are answered otherwise than by Java, and how often each kind of answer was given."""
    said = ask("Allocate", release, questions)
    different, kinds = [], Counter()
    for question, text in zip(questions, said, strict=True):
        ours, theirs = answer(question, release), java_answer(text, question["mq_all"])
        kind = "refused" if theirs == "refused" else "share" if theirs else "empty"
        kinds[f"{question['strategy']} {kind}"] += 1
        if ours != theirs:
            different.append((question, ours, text))
    return different, kinds


@pytest.mark.parametrize("release", RELEASES)
def test_random_groups(release: str, random: Random) -> None:
    count = cases(CASES, release)
    different, kinds = differences([random_question(random) for _ in range(count)], release)
    assert not different, f"{len(different)} of {count}, the first: {different[0]}"
    for strategy in STRATEGIES:
        asked = {kind: kinds[f"{strategy} {kind}"] for kind in ("share", "empty", "refused")}
        assert asked["share"] > count / 60, (strategy, asked)
        assert asked["empty"] > count / 300, (strategy, asked)
        assert asked["refused"] > count / 600 or strategy == "CONFIG", (strategy, asked)


@pytest.mark.parametrize("release", RELEASES)
def test_clients_that_meet_on_the_ring(release: str) -> None:
    mq_all = [["orders", "broker-a", queue_id] for queue_id in range(200)]
    questions: list[Question] = [
        {"strategy": "CONSISTENT_HASH", "current_cid": cid, "mq_all": mq_all, "cid_all": cid_all}
        for cid_all in MEETING_ON_THE_RING
        for cid in sorted(set(cid_all))
    ]
    assert differences(questions, release)[0] == []


@pytest.mark.parametrize("release", RELEASES)
def test_the_golden_lines_are_what_java_answers(release: str) -> None:
    questions, expected = [], []
    for text in LINES:
        line = Line.read(text)
        if line.options.get("client_version", release) != release:
            continue
        for index, cid in enumerate(line.cid_all):
            options = line.arguments()
            question: Question = {
                "strategy": line.strategy_of(index),
                "current_cid": cid,
                "mq_all": [[mq.topic, mq.broker_name, mq.queue_id] for mq in line.mq_all],
                "cid_all": line.cid_all,
                "mq_rooms": [options["broker_room"](mq) for mq in line.mq_all],
                "cid_rooms": [options["client_room"](one) for one in line.cid_all],
            }
            if "consumer_idcs" in options:
                question["consumer_idcs"] = sorted(options["consumer_idcs"])
            if "virtual_nodes" in options:
                question["virtual_nodes"] = options["virtual_nodes"]
            if "config_queues" in options:
                question["config_queues"] = [line.mq_all.index(mq) for mq in options["config_queues"]]
            questions.append(question)
            expected.append((text, line.shares[index]))
    said = ask("Allocate", release, questions)
    shares = [java_answer(text, question["mq_all"]) for question, text in zip(questions, said, strict=True)]
    assert [(text, share) for (text, _), share in zip(expected, shares, strict=True)] == expected
