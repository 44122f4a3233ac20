"""Running infos of consumers, requested through their brokers (GET_CONSUMER_RUNNING_INFO), one request per client.

A request can hurt: a consumer of 5.5.0 answers in its callback threads, as many as it has cores, and for a queue
without a committed offset it waits there for an answer that needs such a thread itself. Two requests at once block a
client with two cores for 5 s per queue, heartbeats and pulls included. So a client never has two open requests, and
after a timeout the collector backs off, longer each time. Clients without an answer are reported with the reason, so
that a client that was not asked does not count as silent.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, wait
from dataclasses import dataclass, field

import structlog

from streaming.collector.reading import BrokerReading, find_members, find_twins
from streaming.collector.rocketmq_answers import Broker, RunningInfo
from streaming.collector.rocketmq_jvm import RocketMQError

WAIT_SECONDS = (5.0, 60.0, 120.0, 240.0, 480.0, 600.0)
"""Backoff after each number of misses. The first is short, because the next request goes through another broker: one
half-open channel is no reason to back off."""

LATE_MS = 45_000
"""One and a half heartbeats of RocketMQ. A client further behind the newest at its broker may be frozen."""

SUSPECT_SECONDS = 60.0
"""Delay of a late or silent client in the order of requests: clients that answer come first."""

log = structlog.get_logger()
Member = tuple[str, str]
"""consumer group, client id."""
Question = tuple[str, str, str]
"""broker_name, consumer group, client id."""
Addressee = tuple[str, str]
"""ClientId and, for twins, the broker that reaches one of them; "" without twins."""


@dataclass(frozen=True)
class Backoff:
    """The backoff of a client after `misses` timeouts in a row.

    It ends early when late heartbeats are timely again: the client was frozen and is live.
    """

    misses: int
    not_before: float
    was_late: bool

    @classmethod
    def after(cls, last: "Backoff | None", now: float, *, is_late: bool) -> "Backoff":
        misses = last.misses + 1 if last else 1
        return cls(misses, now + WAIT_SECONDS[min(misses, len(WAIT_SECONDS)) - 1], is_late)

    def is_over(self, now: float, *, is_late: bool) -> bool:
        return now >= self.not_before or (self.was_late and not is_late)


@dataclass(frozen=True)
class Answers:
    """The members' running infos, and the reason for each missing one: timed_out, left_in_peace, no_time, ...

    If only one of twins answers, the member is in both.
    """

    found: dict[Member, tuple[RunningInfo, ...]] = field(default_factory=dict)
    unheard: dict[Member, str] = field(default_factory=dict)


class RunningReader:
    """Requests the running info of each member, with backoff and in turn."""

    def __init__(self, ask: Callable[[Broker, str, str], RunningInfo], pool: Executor) -> None:
        self._read_running_info = ask
        self._pool = pool
        self._backoffs: dict[Addressee, Backoff] = {}
        self._asked_at: dict[str, float] = {}
        self._in_flight: set[str] = set()
        self._lock = threading.Lock()  # an answer that comes after its round's deadline is still noted

    def read(self, views: Mapping[str, BrokerReading], deadline: float) -> Answers:
        """Return the answers up to `deadline` (time.monotonic). Clients not reached are first in the next round."""
        twins, late = find_twins(views.values()), find_late(views.values())
        with self._lock:
            misses = {client_id: backoff.misses for (client_id, _), backoff in self._backoffs.items()}
            addressees = {
                question: (question[2], question[0] if question[1:] in twins else "")
                for question in pick_questions(views.values(), misses)
            }
            listed, client_ids = set(addressees.values()), {question[2] for question in addressees}
            self._backoffs = {key: backoff for key, backoff in self._backoffs.items() if key in listed}
            self._asked_at = {key: at for key, at in self._asked_at.items() if key in client_ids}
            backoffs, asked_at, in_flight = dict(self._backoffs), dict(self._asked_at), set(self._in_flight)
        now = time.monotonic()
        outcomes: dict[Question, RunningInfo | str] = dict.fromkeys(addressees, "no_time")
        due: dict[str, dict[Question, Addressee]] = defaultdict(dict)
        for question, addressee in addressees.items():
            client_id = question[2]
            if client_id in in_flight:
                continue
            if addressee in backoffs and not backoffs[addressee].is_over(now, is_late=client_id in late):
                outcomes[question] = "left_in_peace"
            else:
                due[client_id][question] = addressee
        suspects = late | {client_id for client_id, _ in backoffs}
        turns = sorted(due, key=lambda each: (asked_at.get(each, 0.0) + SUSPECT_SECONDS * (each in suspects), each))
        asked = {each: self._pool.submit(self._ask, views, due[each], is_late=each in late) for each in turns}
        done, _ = wait(asked.values(), timeout=max(0.0, deadline - time.monotonic()))
        for client_id, answer in asked.items():
            if answer in done:
                outcomes.update(answer.result())
            elif not answer.cancel():  # a late answer is dropped, so the client keeps its turn
                with self._lock:
                    self._asked_at[client_id] = asked_at.get(client_id, 0.0)
        answers = Answers()
        for (_, group, client_id), outcome in outcomes.items():
            if isinstance(outcome, str):
                answers.unheard.setdefault((group, client_id), outcome)
            else:
                answers.found[group, client_id] = (*answers.found.get((group, client_id), ()), outcome)
        return answers

    def _ask(
        self, views: Mapping[str, BrokerReading], questions: Mapping[Question, Addressee], *, is_late: bool
    ) -> dict[Question, RunningInfo | str]:
        """Send one client's requests, one after the other, until one times out."""
        client_id = next(iter(questions))[2]
        with self._lock:
            self._in_flight.add(client_id)
            self._asked_at[client_id] = time.monotonic()
        outcomes: dict[Question, RunningInfo | str] = dict.fromkeys(questions, "timed_out")
        try:
            for question, addressee in questions.items():
                broker_name, group, _ = question
                try:
                    info = self._read_running_info(views[broker_name].broker, group, client_id)
                    outcomes[question] = info
                    with self._lock:
                        self._backoffs.pop(addressee, None)
                except RocketMQError as error:
                    log.debug("running info not received", question=question, error=str(error))
                    if error.is_timeout:
                        with self._lock:
                            last = self._backoffs.get(addressee)
                            self._backoffs[addressee] = Backoff.after(last, time.monotonic(), is_late=is_late)
                        break
                    outcomes[question] = error.reason
        finally:
            with self._lock:
                self._in_flight.discard(client_id)
        return outcomes


def pick_questions(views: Iterable[BrokerReading], misses: Mapping[str, int] | None = None) -> list[Question]:
    """Return the requests: one per member, after a miss through its next broker; twins through every broker that lists
    them, because a broker only reaches its first channel of a ClientId.
    """
    known = list(views)
    twins = find_twins(known)
    missed = misses or {}
    return [
        (name, *member)
        for member, names in sorted(find_members(known).items())
        for name in (names if member in twins else [names[missed.get(member[1], 0) % len(names)]])
    ]


def find_late(views: Iterable[BrokerReading]) -> frozenset[str]:
    """Return the ClientIds whose last heartbeat is over LATE_MS behind the newest at each broker that reports one."""
    behind: dict[str, int] = {}
    for view in views:
        stamps = [
            (each.client_id, each.last_update_timestamp)
            for infos in view.producers.values()
            for each in infos
            if each.last_update_timestamp
        ]
        newest = max((stamp for _, stamp in stamps), default=0)
        for client_id, stamp in stamps:
            behind[client_id] = min(behind.get(client_id, newest - stamp), newest - stamp)
    return frozenset(client_id for client_id, ms in behind.items() if ms > LATE_MS)
