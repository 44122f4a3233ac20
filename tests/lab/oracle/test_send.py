"""Sends as rocketmq-client runs them, from sendDefaultImpl down to a scripted network: no difference in any release."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.lab.oracle import MARKS, RELEASES, ask_json, cases
from udfs.rocketmq.fault import FaultItem, only_extends, update_fault_item
from udfs.rocketmq.send import MQ_BROKER_EXCEPTION, TIMES_TOTAL, Outcome, SendOptions, end_try, start_send, start_try

pytestmark = [*MARKS, pytest.mark.parametrize("release", RELEASES)]

NOW = 1_700_000_000_000
TRY_MS, ATTEMPTS = 80, 20
SLOW_MS = 500
"""A JVM that is held up for longer takes its broker for a slow one."""
STATUSES = {0: "SEND_OK", 10: "FLUSH_DISK_TIMEOUT", 11: "SLAVE_NOT_AVAILABLE", 12: "FLUSH_SLAVE_TIMEOUT"}
REFUSALS = (1, 2, 3, 13, 14, 16, 17, 204, 205, 211, 215, 1500)
NO_ANSWER = ("RemotingSendRequestException", "RemotingTimeoutException")

Question = dict[str, Any]


def random_question(random: Random) -> Question:
    """One send of up to three tries, most of which fail."""
    answers: tuple[int | str, ...] = (*REFUSALS, *NO_ANSWER, "RemotingConnectException")
    script = []
    for _ in range(TIMES_TOTAL):
        name = random.choice((0, 10, 11, 12)) if random.random() < 0.25 else random.choice(answers)
        script.append({"name": name, "ms": 0})
    brokers = [f"broker-{i}" for i in range(random.randint(1, 3))]
    return {
        "timeout": random.choice((3_000, 60_000)),
        "detector": random.random() < 0.5,
        "brokers": brokers,
        "without_address": brokers if random.random() < 0.05 else [],
        "script": script,
    }


class Replay:
    """What the rules make of a question, led by the brokers that the client chose."""

    def __init__(self, question: Question, reported: Question, release: str) -> None:
        self._question, self._reported, self._release = question, reported, release
        self._slop_ms = reported["slop"]
        self._tries = iter(reported["tries"])
        self.now_ms = NOW
        self.items: dict[str, FaultItem] = {}
        options = SendOptions(
            client_version=release,
            send_msg_timeout_ms=question["timeout"],
            start_detector_enable=question["detector"],
        )
        self.send = start_send(options, NOW)

    def run(self) -> Outcome:
        """The end of the send."""
        script = iter(self._question["script"])
        while True:
            broker_name, reported_ms = next(self._tries, ("broker-0", None))
            self.send = start_try(self.send, broker_name, self.now_ms)
            if self.send.result:
                assert reported_ms is None
                return self.send.result
            if not self._question["without_address"]:
                assert reported_ms is not None, "the client gave up"
                self._same_timeout(reported_ms)
                outcome = self._outcome(next(script))
            else:
                outcome = Outcome("MQClientException")
            self._end_try(outcome)
            if self.send.result:
                assert next(self._tries, None) is None, "the client goes on"
                return self.send.result

    def _outcome(self, step: Question) -> Outcome:
        self.now_ms += step["ms"]
        name = step["name"]
        if isinstance(name, str):
            return Outcome(name)
        return Outcome(STATUSES[name]) if name in STATUSES else Outcome(MQ_BROKER_EXCEPTION, name)

    def _end_try(self, outcome: Outcome) -> None:
        self.send, update = end_try(self.send, outcome, self.now_ms)
        name = update.broker_name
        self.items[name] = update_fault_item(
            self.items.get(name),
            name,
            update.current_latency_ms,
            update.isolation,
            update.reachable,
            self.now_ms,
            self._release,
        )

    def _same_timeout(self, reported_ms: int) -> None:
        assert 0 <= self.send.timeout_ms - reported_ms <= self._slop_ms


def check(question: Question, reported: Question, release: str) -> Replay:
    replay = Replay(question, reported, release)
    end = replay.run()
    name, code = reported["end"]
    assert (end.name, end.response_code) == (name, None if code == -1 else code), question
    if question["without_address"]:  # the network never saw which brokers it was
        (item,) = replay.items.values()
        replay.items = {name: item for name, _, _ in reported["items"]}
    assert {name for name, _, _ in reported["items"]} == set(replay.items), question
    for name, start_ms, reachable in reported["items"]:
        item = replay.items[name]
        assert reachable == item.reachable, question
        if start_ms is None:
            assert item.start_timestamp_ms == 0, question
        else:
            assert abs(item.start_timestamp_ms - replay.now_ms - start_ms) <= reported["slop"], question
    return replay


def test_every_send_ends_alike_and_leaves_the_same_fault_items(release: str, random: Random) -> None:
    questions = [random_question(random) for _ in range(cases(2_000, release))]
    seen: Counter[str] = Counter()
    for question, answer in zip(questions, ask_json("Send", release, questions), strict=True):
        reported = answer if answer["slop"] < SLOW_MS else ask_until_on_time(release, question)
        replay = check(question, reported, release)
        seen["tries"] += len(reported["tries"])
        seen["unreachable"] += any(not item.reachable for item in replay.items.values())
    assert seen["tries"] > 1.1 * len(questions)
    assert (seen["unreachable"] > 0) is only_extends(release)


def test_the_tries_of_a_send_share_its_timeout(release: str) -> None:
    """Each try takes TRY_MS; sendMsgTimeout ends half a TRY_MS into the first to the fourth of them."""
    reported = []
    for share in range(4):
        question = random_question(Random(share)) | {
            "timeout": TRY_MS * share + TRY_MS // 2,
            "without_address": [],
            "script": [{"name": "RemotingTimeoutException", "ms": TRY_MS}] * TIMES_TOTAL,
        }
        reported.append(ask_until_on_time(release, question))
        check(question, reported[-1], release)
    assert [len(one["tries"]) for one in reported] == [1, 2, 3, 3]
    assert [one["end"][0] for one in reported] == ["RemotingTooMuchRequestException"] * 2 + ["MQClientException"] * 2


def ask_until_on_time(release: str, question: Question) -> Question:
    """The answer of a JVM that loads no classes meanwhile and that the machine lets run."""
    for _ in range(ATTEMPTS):
        (reported,) = ask_json("Send", release, [question])
        if reported["slop"] - TRY_MS * len(reported["tries"]) < TRY_MS // 2:
            return reported
    pytest.fail(f"the JVM was held up {ATTEMPTS} times in a row")
