"""The relay's engine in virtual time: two tables in memory, scripted receivers, crashes at any point.

It does what streaming/oncall/relay.py does, in its order (decide, write, send, hear), without threads, HTTP or Delta:
an hour of a dead receiver takes milliseconds.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from streaming.oncall.desk import Desk
from streaming.oncall.duty import Acknowledgement, Send
from streaming.oncall.notice import Notice
from streaming.oncall.now import Now
from streaming.oncall.outbox import Outbox, Traits
from streaming.oncall.own_alerts import watchdog
from streaming.oncall.pace import Pace
from streaming.oncall.receiver import Answer
from streaming.oncall.restore import Past, is_settled, read_pasts, restore
from streaming.oncall.transition import Transition, read_transition
from udfs.routing import Route, pick_watchdog_receivers
from udfs.silence import Silence

START_MS = 1_790_000_000_000
POLL_MS = 2_000

DELIVERED = Answer("DELIVERED", 200, "ok")
DOWN = Answer("RETRY", None, "no answer")
BUSY = Answer("RETRY", 503, "busy")
REFUSED = Answer("REFUSED", 400, "no")
BAD_KEY = Answer("BAD_KEY", 401, "who are you?")

Behaviour = Callable[[Send, int], Answer]
Row = dict[str, Any]


def alert_row(incident: str, state: str, at_ms: int, **columns: Any) -> Row:
    """A row of the alerts table; `incident` is the alert_id."""
    row: Row = {
        "alert_id": incident,
        "incident_id": f"{incident}-{START_MS}",
        "kind": "starved_queue",
        "severity": "critical",
        "state": state,
        "reason": None,
        "cause": "frozen_client",
        "cluster": "prod",
        "consumer_group": "billing",
        "topic": "orders",
        "queues": ["broker-a:0"],
        "summary": f"Nobody consumes {incident}.",
        "advice": "Restart it.",
        "evidence": "{}",
        "suppressed_by": None,
        "started_at": START_MS,
        "changed_at": at_ms,
    }
    return row | columns


@dataclass
class Scripted:
    """A receiver that answers as told, after `latency_ms`. `calls` are all it got, with the time and the answer."""

    traits: Traits = field(default_factory=Traits)
    behaviour: Behaviour = lambda _send, _now: DELIVERED
    latency_ms: int = 20
    calls: list[tuple[int, Send, Answer]] = field(default_factory=list)

    def took(self) -> list[tuple[int, Notice]]:
        """What it has accepted that was no renewal, in order."""
        return [
            (at_ms, notice)
            for at_ms, send, answer in self.calls
            if answer.verdict == "DELIVERED" and not send.is_renewal and send.acknowledgement is None
            for notice in send.notices
            if notice.key not in answer.refused
        ]

    def keys(self) -> list[str]:
        return [notice.key for _, notice in self.took()]

    def told(self) -> list[str]:
        """`name status` of what it accepted, in order."""
        return [f"{notice.alert_id} {notice.status}" for _, notice in self.took()]


class Stage:
    """Write rows, let time pass, crash, restart; then ask the receivers what they got."""

    def __init__(
        self,
        receivers: dict[str, Scripted],
        *,
        routes: Sequence[Route] | None = None,
        pace: Pace | None = None,
        limit: int = 100,
        seed: int = 0,
    ) -> None:
        self.receivers = receivers
        self.routes = list(routes) if routes is not None else [Route("all", tuple(receivers))]
        self.pace, self.limit = pace or Pace(), limit
        self.now_ms = START_MS
        self.set_by_ms = 0
        self.alerts: list[Row] = []
        self.log: list[Row] = []
        self.silences: list[Silence] = []
        self.words: list[Acknowledgement] = []
        self.is_alive = True
        self._dice = random.Random(seed)
        self._flying: list[tuple[int, int, str, Answer, int]] = []
        self._numbers = itertools.count()
        self._unseen: list[Transition] = []
        self._history_until_ms = 0
        self.watch_age_ms: int | None = 0
        self.desk = self._new_desk()

    @property
    def now(self) -> Now:
        """`now_ms` goes on; the wall clock of the relay's machine may be set by so many ms."""
        return Now(self.now_ms + self.set_by_ms, self.now_ms)

    def write(self, *rows: Row) -> None:
        """The queries write alerts."""
        self.alerts += rows
        self._unseen += [read_transition(row) for row in rows]

    def silence(self, silence: Silence) -> None:
        self.silences = [one for one in self.silences if one.silence_id != silence.silence_id] + [silence]
        if self.is_alive:
            self.desk.set_silences(self.silences)

    def acknowledge(self, word: Acknowledgement) -> None:
        self.words.append(word)
        if self.is_alive:
            self.desk.acknowledge(self.words, self.now)

    def step(self) -> None:
        """Once through the relay's loop, at this moment."""
        while self._flying and self._flying[0][0] <= self.now_ms:
            _, _, name, answer, latency_ms = heapq.heappop(self._flying)
            self.desk.records += self.desk.outboxes[name].settle(answer, self.now, latency_ms)
        self.desk.observe(self._unseen, self.now)
        self._unseen = []
        self.desk.advance(self.now)
        self._attest()
        self._save()
        for name, box in self.desk.outboxes.items():
            send = box.pick(self.now)
            if send is not None:
                self._call(name, send)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until_ms = self.now_ms + round(seconds * 1000)
        while self.now_ms < until_ms:
            if self.is_alive:
                self.step()
            self.now_ms = min(until_ms, self._next_ms())
        if self.is_alive:
            self.step()

    def crash(self) -> None:
        """kill -9: what the relay knew is gone, answers on the way too; the tables and the receivers stay."""
        self.is_alive = False
        self._flying.clear()
        self._unseen.clear()

    def restart(self) -> None:
        """A new relay, from the two tables."""
        self.is_alive = True
        self._unseen.clear()
        self.desk = self._new_desk()
        transitions = [read_transition(row) for row in self.alerts]
        pasts = read_pasts(self.log)
        stories: dict[str, list[Transition]] = {}
        for transition in transitions:
            stories.setdefault(transition.incident_id, []).append(transition)
        since_ms = self.now.wall_ms - self.pace.resolved_resend_ms
        for incident_id, rows in list(stories.items()):
            steps = [(row.state, row.at_ms) for row in rows]
            if is_settled(steps, pasts.get(incident_id, Past()), self.receivers, since_ms, self._history_until_ms):
                self.desk.settle(incident_id)
                del stories[incident_id]
        self.desk.set_silences(self.silences)
        restore(self.desk, stories, pasts, self.now)
        self.desk.acknowledge(self.words, self.now)

    def outcomes(self, outcome: str) -> list[Row]:
        """Rows of the delivery log with this outcome."""
        return [row for row in self.log if row["outcome"] == outcome]

    def _new_desk(self) -> Desk:
        boxes = {name: Outbox(name, one.traits, self.pace, self._dice) for name, one in self.receivers.items()}
        return Desk(self.routes, boxes, limit=self.limit, resend_ms=self.pace.resend_ms, quiet=["log"])

    def _save(self) -> None:
        self.alerts += self.desk.own_rows
        self.log += [record.row() for record in self.desk.records]
        self.desk.own_rows, self.desk.records = [], []

    def _call(self, name: str, send: Send) -> None:
        receiver = self.receivers[name]
        answer = receiver.behaviour(send, self.now_ms)
        receiver.calls.append((self.now_ms, send, answer))
        at_ms = self.now_ms + receiver.latency_ms
        heapq.heappush(self._flying, (at_ms, next(self._numbers), name, answer, receiver.latency_ms))

    def _attest(self) -> None:
        for name in pick_watchdog_receivers(self.routes):
            notice = None if self.watch_age_ms is None else watchdog(START_MS, self.now_ms, "it works")
            self.desk.outboxes[name].watchdog = notice

    def _next_ms(self) -> int:
        times = [self.now_ms + POLL_MS]
        if self._flying:
            times.append(self._flying[0][0])
        if self.is_alive:
            times += [at for box in self.desk.outboxes.values() if (at := box.wake_at_ms()) is not None]
        return max(self.now_ms + 1, min(times))


def expected_of(rows: Iterable[Row]) -> dict[str, list[str]]:
    """What must be told of each incident when nothing is silenced or held back: the keys, in order, from the rows."""
    told: dict[str, list[str]] = {}
    newest: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        name = row["incident_id"]
        if row["state"] == "RESOLVED" and name in newest:
            told[name].append(f"{name}:resolved:{row['changed_at']}")
        elif row["state"] == "FIRING" and row["suppressed_by"] is None:
            facts = (row["cause"], row["severity"], tuple(row["queues"]))
            if newest.get(name) != facts:
                newest[name] = facts
                told.setdefault(name, []).append(f"{name}:firing:{row['changed_at']}")
    return told
