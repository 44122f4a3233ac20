"""The relay's engine in virtual time: two tables in memory, scripted receivers, crashes at any point.

The relay itself (streaming/relay/relay.py), without threads, HTTP or Delta: an hour of a dead receiver takes
milliseconds.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import pyarrow as pa

from conf.oncall import LabelRule
from conf.settings import Settings
from schemas.tables import ALERT_DELIVERIES, ALERTS, Table
from streaming.relay.notice import Notice, Now, read_notice, read_record
from streaming.relay.outbox import Send
from streaming.relay.owed import Owed
from streaming.relay.receivers.posting import Answer, Traits
from streaming.relay.relay import Relay, call
from streaming.relay.tables import ALERT_COLUMNS, LOG_COLUMNS, History, pick_completed
from streaming.warehouse.rows import arrow_table
from udfs.alerts.routing import Route
from udfs.alerts.silence import Quiet, Silence

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
        "inhibited_by": None,
        "started_at": START_MS,
        "changed_at": at_ms,
    }
    return row | columns


@dataclass
class Scripted:
    """A receiver with scripted answers after `latency_ms`. `calls` are all calls with time and answer."""

    traits: Traits = field(default_factory=Traits)
    behaviour: Behaviour = lambda _send, _now: DELIVERED
    latency_ms: int = 20
    calls: list[tuple[int, Send, Answer]] = field(default_factory=list)

    def close(self) -> None:
        """Nothing is open."""

    def took(self) -> list[tuple[int, Notice]]:
        """What it has accepted that was no renewal, in order."""
        return [
            (at_ms, notice)
            for at_ms, send, answer in self.calls
            if answer.verdict == "DELIVERED" and not send.is_renewal
            for notice in send.notices
            if notice.status != "acknowledged"
        ]

    def keys(self) -> list[str]:
        return [notice.key for _, notice in self.took()]

    def notified(self) -> list[str]:
        """`name status` of what it accepted, in order."""
        return [f"{notice.alert_id} {notice.status}" for _, notice in self.took()]


@dataclass
class TablesInMemory:
    """The alerts, the delivery log, silences and acknowledgements."""

    alerts: list[Row] = field(default_factory=list)
    unseen: list[Row] = field(default_factory=list)
    log: list[Row] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    words: list[Row] = field(default_factory=list)

    def read_new_alerts(self) -> list[Notice]:
        rows, self.unseen = self.unseen, []
        return [read_notice(row) for row in rows]

    def read_silences(self) -> list[Silence]:
        return self.silences

    def read_acknowledgements(self) -> list[Row]:
        return self.words

    def read_history(self, receivers: Collection[str], renewed_since_ms: int, _now_ms: int) -> History:
        alerts, log = _columns(self.alerts, ALERTS, ALERT_COLUMNS), _columns(self.log, ALERT_DELIVERIES, LOG_COLUMNS)
        completed = pick_completed(alerts, log, receivers, renewed_since_ms, 0)
        over = set(completed)
        self.unseen = []
        notices = [read_notice(row) for row in self.alerts if row["incident_id"] not in over]
        records = [read_record(row) for row in self.log if row["incident_id"] not in over]
        return History(notices, records, completed, 0)

    def append(self, table: Table, rows: Sequence[Row]) -> int:
        written = self.alerts if table is ALERTS else self.log
        written += rows
        return len(rows)


def _columns(rows: Sequence[Row], table: Table, names: Sequence[str]) -> pa.Table:
    return arrow_table(rows, table, 0).select(list(names))


default_settings = cache(Settings.load)


class RelayInVirtualTime(Relay):
    """Calls and writes end when the stage lets them; reads are immediate."""

    stage: "Stage"

    def _start(self, name: str, act: Callable[[], Any], then: Callable[[Any], None]) -> None:
        if isinstance(act, partial) and act.func is call:
            self.stage.call(act.args[1], then)
        elif name == "log" and self.stage.write_ms:
            self.stage.write_later(lambda: then(act()))
        else:
            then(act())


class Stage:
    """Write rows, let time pass, crash, restart; then ask the receivers what they got."""

    def __init__(
        self,
        receivers: dict[str, Scripted],
        *,
        routes: Sequence[Route] | None = None,
        oncall: Mapping[str, Any] | None = None,
        limit: int = 100,
        seed: int = 0,
        mutes: Sequence[Quiet] = (),
        write_ms: int = 0,
        labels: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.receivers, self.labels = receivers, labels
        self.write_ms = write_ms
        self.routes = list(routes) if routes is not None else [Route("all", tuple(receivers))]
        self.limit, self.mutes, self.oncall = limit, mutes, dict(oncall or {})
        self.now_ms = START_MS
        self.set_by_ms = 0
        self.tables = TablesInMemory()
        self.is_alive = True
        self._rng = random.Random(seed)
        self._flying: list[tuple[int, int, Any]] = []
        self._writes: list[tuple[int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.watch_age_ms: int | None = 0
        self._relay = self._new_relay()

    @property
    def owed(self) -> Owed:
        return self._relay.owed

    @property
    def alerts(self) -> list[Row]:
        return self.tables.alerts

    @property
    def log(self) -> list[Row]:
        return self.tables.log

    @property
    def now(self) -> Now:
        """`now_ms` is monotonic; the wall clock of the relay's machine is set off by `set_by_ms`."""
        return Now(self.now_ms + self.set_by_ms, self.now_ms)

    def write(self, *rows: Row) -> None:
        """The queries write alerts."""
        self.tables.alerts += rows
        self.tables.unseen += rows
        if self.is_alive:
            self._relay.look()

    def put(self, incident: str, state: str = "FIRING", *, run: float, **columns: Any) -> None:
        """Write a row of now, then let `run` seconds pass."""
        self.write(alert_row(incident, state, self.now_ms, **columns))
        self.run(run)

    def silence(self, silence: Silence) -> None:
        others = [one for one in self.tables.silences if one.silence_id != silence.silence_id]
        self.tables.silences = [*others, silence]
        self._relay._read_at_ms = 0

    def acknowledge(self, incident: str) -> None:
        """Ada acknowledges the incident now; `incident` is the alert_id."""
        row = {"incident_id": f"{incident}-{START_MS}", "acknowledged_by": "ada", "note": "on it"}
        self.tables.words.append(row | {"acknowledged_at": self.now_ms})
        self._relay._read_at_ms = 0

    def step(self) -> None:
        """Let the relay work once, at this moment."""
        while self._writes and self._writes[0][0] <= self.now_ms:
            self._writes.pop(0)[1]()
        while self._flying and self._flying[0][0] <= self.now_ms:
            heapq.heappop(self._flying)[2]()
        self._relay.advance(self.now)

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
        self._writes.clear()

    def restart(self, *, crashes: bool = False) -> None:
        """A new relay, from the tables; `crashes` kills the old one now."""
        if crashes:
            self.crash()
        self.is_alive = True
        self._relay = self._new_relay()

    def reload(self) -> None:
        """The settings change: the same relay loads the tables again. Answers are still on the way."""
        self._load(self._relay)

    def outcomes(self, outcome: str) -> list[Row]:
        """Rows of the delivery log with this outcome."""
        return [row for row in self.log if row["outcome"] == outcome]

    def _progress(self) -> tuple[float, str | None]:
        return float("inf") if self.watch_age_ms is None else self.watch_age_ms / 1000, None

    def _new_relay(self) -> Relay:
        changes = {"max_firing_per_kind": self.limit, **self.oncall}
        settings = default_settings()
        settings = settings.model_copy(update={"oncall": settings.oncall.model_copy(update=changes)})
        relay = RelayInVirtualTime(
            settings,
            self._progress,
            now=lambda: self.now,
        )
        relay.stage, relay._rng = self, self._rng
        self._load(relay)
        return relay

    def _load(self, relay: Relay) -> None:
        tables: Any = self.tables
        receivers: Any = self.receivers
        labels = tuple(map(LabelRule.model_validate, self.labels))
        relay._settings = relay._settings.model_copy(update={"labels": labels})
        relay.resume(tables, receivers, self.routes, self.mutes)

    def write_later(self, act: Callable[[], None]) -> None:
        self._writes.append((self.now_ms + self.write_ms, act))

    def call(self, send: Send, then: Callable[[tuple[Answer, int]], None]) -> None:
        """Ask the scripted receiver; its answer arrives after its latency."""
        receiver = self.receivers[send.receiver]
        answer = receiver.behaviour(send, self.now_ms)
        receiver.calls.append((self.now_ms, send, answer))
        settle = partial(then, (answer, receiver.latency_ms))
        heapq.heappush(self._flying, (self.now_ms + receiver.latency_ms, next(self._numbers), settle))

    def _next_ms(self) -> int:
        times = [self.now_ms + (self._relay.wait_ms(self.now_ms) if self.is_alive else POLL_MS)]
        times += [waiting[0][0] for waiting in (self._flying, self._writes) if waiting]
        return max(self.now_ms + 1, round(min(times)))


def expected_of(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Return the keys to notify of each incident, in order, if nothing is silenced or withheld."""
    notified: dict[str, list[str]] = {}
    newest: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        name = row["incident_id"]
        if row["state"] == "RESOLVED" and name in newest:
            notified[name].append(f"{name}:resolved:{row['changed_at']}")
        elif row["state"] == "FIRING" and row["inhibited_by"] is None:
            facts = (row["cause"], row["severity"], tuple(row["queues"]))
            if newest.get(name) != facts:
                newest[name] = facts
                notified.setdefault(name, []).append(f"{name}:firing:{row['changed_at']}")
    return notified


def stage_of(**arguments: Any) -> tuple[Stage, Scripted]:
    """A stage with one receiver, the pager."""
    pager = Scripted()
    return Stage({"pager": pager}, **arguments), pager


def silence(start_s: float, end_s: float, silence_id: str = "s1", **matchers: str) -> Silence:
    """A silence of what matches, by default of everything, in seconds after the start."""
    globs = {label: (glob,) for label, glob in (matchers or {"cluster": "*"}).items()}
    start_ms, end_ms = START_MS + round(start_s * 1000), START_MS + round(end_s * 1000)
    return Silence(silence_id, globs, "ada", "release", start_ms, end_ms)
