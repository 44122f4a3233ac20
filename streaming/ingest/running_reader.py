"""What consumers say of themselves, asked through their brokers (GET_CONSUMER_RUNNING_INFO), one question a client.

Asking can hurt: a consumer of 5.5.0 answers in its callback threads, as many as it has cores, and for a queue
without a committed offset it waits there for an answer that needs such a thread itself. Two questions at once hold
a client with two cores for 5 s a queue, heartbeats and pulls included. So a client never has two of our questions,
and one that does not answer in time is left in peace, longer each time.
"""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

import structlog

from streaming.ingest.reading import BrokerReading, find_members, find_twins
from streaming.ingest.rocketmq_answers import Broker, RunningInfo
from streaming.ingest.rocketmq_jvm import RocketMQError

PEACE_SECONDS = 60.0
LONGEST_PEACE_SECONDS = 3600.0

log = structlog.get_logger()
Question = tuple[str, str, str]
"""broker_name, consumer group, client id."""


class RunningInfoSource(Protocol):
    """Who passes a question on to a client."""

    def read_running_info(self, broker: Broker, group: str, client_id: str) -> RunningInfo: ...


@dataclass(frozen=True)
class Peace:
    """How long a client that did not answer in time is not asked: until it has sent another heartbeat and the wait
    is over, which doubles each time.
    """

    not_before: float
    wait_seconds: float
    heartbeat_ms: int

    @classmethod
    def after(cls, last: "Peace | None", now: float, heartbeat_ms: int) -> "Peace":
        """The peace that a question which timed out at `now` begins, after the `last` one."""
        wait_seconds = min(2 * last.wait_seconds, LONGEST_PEACE_SECONDS) if last else PEACE_SECONDS
        return cls(now + wait_seconds, wait_seconds, heartbeat_ms)

    def is_over(self, now: float, heartbeat_ms: int) -> bool:
        return now >= self.not_before and heartbeat_ms > self.heartbeat_ms


class RunningReader:
    """Asks the members of each group; remembers whom to leave in peace."""

    def __init__(self, source: RunningInfoSource, pool: Executor) -> None:
        self._source = source
        self._pool = pool
        self._peace: dict[Question, Peace] = {}

    def read(self, views: Mapping[str, BrokerReading]) -> dict[tuple[str, str], tuple[RunningInfo, ...]]:
        """(consumer group, client id) to what its members told, for those that answered."""
        heartbeats = last_heartbeats(views.values())
        questions = pick_questions(views.values())
        self._peace = {question: peace for question, peace in self._peace.items() if question in questions}
        by_client: dict[str, list[Question]] = {}
        for question in questions:
            peace = self._peace.get(question)
            if peace is None or peace.is_over(time.monotonic(), heartbeats.get(question[2], 0)):
                by_client.setdefault(question[2], []).append(question)
        asked = [
            self._pool.submit(self._ask, views, by_client[client_id], heartbeats.get(client_id, 0))
            for client_id in by_client
        ]
        found: dict[tuple[str, str], tuple[RunningInfo, ...]] = {}
        for answers in asked:
            for question, info in answers.result():
                found[question[1:]] = (*found.get(question[1:], ()), info)
        return found

    def _ask(
        self, views: Mapping[str, BrokerReading], questions: list[Question], heartbeat_ms: int
    ) -> list[tuple[Question, RunningInfo]]:
        """One client's questions, one after the other, until one times out."""
        answers = []
        for question in questions:
            broker_name, group, client_id = question
            try:
                answers.append((question, self._source.read_running_info(views[broker_name].broker, group, client_id)))
                self._peace.pop(question, None)
            except RocketMQError as error:
                log.debug("no running info", question=question, error=str(error))
                if error.is_timeout:
                    self._peace[question] = Peace.after(self._peace.get(question), time.monotonic(), heartbeat_ms)
                    break
        return answers


def pick_questions(views: Iterable[BrokerReading]) -> list[Question]:
    """Whom to ask for running info, through which broker: a member once, twins through every broker that lists
    them, since each broker only reaches its own first channel of a client id.
    """
    known = list(views)
    twins = find_twins(known)
    return [
        (name, *member)
        for member, names in sorted(find_members(known).items())
        for name in (names if member in twins else names[:1])
    ]


def last_heartbeats(views: Iterable[BrokerReading]) -> dict[str, int]:
    """Client id to its last heartbeat at any broker, ms."""
    found: dict[str, int] = {}
    for view in views:
        for infos in view.producers.values():
            for each in infos:
                found[each.client_id] = max(found.get(each.client_id, 0), each.last_update_timestamp or 0)
    return found
