"""RocketMQ's own classes as judges: the Java beside the tests, run on the jars of three releases.

One JVM a release answers for all of it. How many cases it is asked, and which, is in conftest.py.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings
from streaming.spark.jars import class_path
from tests.lab.oracle.judge import Judge, NoAnswerError

RELEASES = {"4.7.1": "client-4.7.1", "4.9.8": "client-4.9.8", "5.5.0": "rocketmq"}
"""Client release to the Ivy configuration that has its jars."""

BROKER_RELEASE = "5.5.0"
"""The release whose jars hold a broker as well."""


def cases(count: int, release: str) -> int:
    """Return how many of `count` cases to ask: in `make test` a quarter of them, a sixth of an older release."""
    return count if "ORACLE_CASES" in os.environ else count // (4 if release == BROKER_RELEASE else 6)


MARKS = [pytest.mark.real, pytest.mark.xdist_group("oracle")]
"""What every test here carries: its JVMs are started once, in one worker."""

JUDGES: dict[str, Judge] = {}
"""The JVMs that run."""

SOURCES = Path(__file__).parent
OF_THE_BROKER = "Membership.java"


def ask(name: str, release: str, questions: Iterable[Any]) -> list[str]:
    """The answer to each question, a line of JSON each, from the class `name` in NAME.java on a release's jars.

    The release's JVM starts with its first question. Raises NoAnswerError; the next question starts another JVM.
    """
    if release not in JUDGES:
        jars = class_path(RELEASES[release], Settings.load().paths.jars)
        sources = sorted(SOURCES.glob("*.java"))
        if release != BROKER_RELEASE:
            sources.remove(SOURCES / OF_THE_BROKER)
        JUDGES[release] = Judge(jars, sources)
    try:
        return JUDGES[release].ask(name, [json.dumps(question) for question in questions])
    except NoAnswerError:
        del JUDGES[release]
        raise


def ask_json(name: str, release: str, questions: Iterable[Any]) -> list[Any]:
    """The same, where the answers are JSON as well."""
    return [json.loads(answer) for answer in ask(name, release, questions)]


def stop_judges() -> None:
    """End every JVM."""
    while JUDGES:
        JUDGES.popitem()[1].stop()
