"""The JVM behind the oracle: it takes and gives more than a pipe holds, and its failures say why."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.spark.jars import class_path
from tests.lab.oracle import MARKS, SOURCES
from tests.lab.oracle.judge import Judge, NoAnswerError

pytestmark = MARKS

ODD = """
import com.alibaba.fastjson.JSONObject;

class Odd {
    static String answer(JSONObject question) throws Exception {
        System.out.println(question); // RocketMQ's logging does so too
        System.err.println(question);
        Thread.sleep(question.getLongValue("sleep_ms"));
        if (question.containsKey("throws")) {
            throw new IllegalStateException(question.getString("throws"));
        }
        return question.getString("echo");
    }
}
"""


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Judge]:
    odd = tmp_path / "Odd.java"
    odd.write_text(ODD)
    jars = class_path("client-4.7.1", Settings.load().paths.jars)
    judge = Judge(jars, [SOURCES / "Oracle.java", odd])
    yield judge
    judge.stop()


def test_more_than_a_pipe_holds_goes_both_ways_and_what_others_print_is_no_answer(judge: Judge) -> None:
    """Then a JVM that falls silent is killed, and fails with its stderr."""
    texts = [f"{number} " + "caf\u00e9 " * 20_000 for number in range(20)]
    assert judge.ask("Odd", [json.dumps({"echo": text}) for text in texts]) == texts
    assert judge.ask("Odd", []) == []
    assert judge.ask("Odd", [json.dumps({"echo": "more"})]) == ["more"]
    with pytest.raises(NoAnswerError, match=r"(?s)^0 of 1 .*killed in its silence.*600000"):
        judge.ask("Odd", [json.dumps({"sleep_ms": 600_000})], silence_seconds=2.0)


def test_a_question_that_throws_fails_with_its_stack_trace(judge: Judge) -> None:
    questions = [{"echo": "first"}, {"throws": "odd"}, {"echo": "never"}]
    with pytest.raises(
        NoAnswerError, match=r"(?s)1 of 3 questions to Odd .*IllegalStateException: odd.*at Odd\.answer"
    ):
        judge.ask("Odd", [json.dumps(question) for question in questions])
