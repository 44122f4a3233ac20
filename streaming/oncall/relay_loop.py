"""What a relay does, in its order: decide, write, send, hear; without threads, for the caller tells the time and calls.

What is due is in the log before it is sent, and an answer before the receiver is called again, so a crash repeats at
most the one call that was in flight at each receiver. When the log cannot be written, people are told all the same.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import structlog
from deltalake.exceptions import DeltaError
from obstore.exceptions import BaseError as StoreCallError

from conf.oncall import CANARY
from streaming.oncall.delivery import Acknowledgement, Send
from streaming.oncall.delivery_log import History
from streaming.oncall.notice import Notice
from streaming.oncall.notification_policy import NotificationPolicy
from streaming.oncall.now import Now
from streaming.oncall.record import Record
from streaming.oncall.relay_listener import RelayListener
from streaming.oncall.restore import restore
from streaming.oncall.transition import Transition
from streaming.oncall.worker import Reply
from udfs.alerts.silence import Silence

log = structlog.get_logger()

OWED_MS = 1_000
"""Between two counts of what is due."""


class RelayTables(Protocol):
    """What happened, and what was delivered."""

    def read_history(self, receivers: Collection[str], renewed_since_ms: int, now_ms: int) -> History: ...
    def append(self, records: Sequence[Record]) -> None: ...
    def append_alerts(self, rows: Sequence[dict[str, Any]]) -> None: ...


class OperatorTables(Protocol):
    """What people said; None where nothing has changed since it was read last."""

    def read_silences(self) -> list[Silence] | None: ...
    def read_acknowledgements(self) -> list[Acknowledgement] | None: ...


class RelayLoop:
    """Restores the policy from the tables when made; `version` is of the alerts table, as it was read.

    `call` makes a call; what comes of it goes to `hear`, whenever that is. `watchdog` gives the notice that those who
    are in `watchers` get at a time, or None while it is silent.
    """

    def __init__(
        self,
        policy: NotificationPolicy,
        tables: RelayTables,
        operator_input: OperatorTables,
        call: Callable[[Send], None],
        listener: RelayListener,
        now: Now,
        *,
        watchers: Collection[str],
        watchdog: Callable[[int], Notice | None],
        poll_ms: float,
        resolved_resend_ms: int,
    ) -> None:
        self.policy, self._tables, self._operator_input, self._call, self._listener = (
            policy,
            tables,
            operator_input,
            call,
            listener,
        )
        self._watchers, self._watchdog, self._poll_ms = watchers, watchdog, poll_ms
        self._notified_owed_ms = 0
        self._read_at_ms = now.pace_ms
        self._unwritten: list[Record] = []
        self._unwritten_alerts: list[dict[str, Any]] = []
        self.version = self._restore(now, now.wall_ms - resolved_resend_ms)

    def step(self, now: Now) -> None:
        """Decide, write, send."""
        self._look(now)
        self.write()
        for box in self.policy.outboxes.values():
            send = box.pick(now)
            if send is not None:
                self._call(send)
        self._report_owed(now.pace_ms)

    def handle(self, news: list[Transition] | Reply, now: Now) -> None:
        """Rows of the alerts table, new or not; or what came of a call."""
        if isinstance(news, Reply):
            self._settle(news, now)
        else:
            self.policy.observe(self._without_history(news), now)

    def wait_ms(self, pace_ms: int) -> float:
        """Until something is due, or people are to be read again."""
        times = [at for box in self.policy.outboxes.values() if (at := box.wake_at_ms()) is not None]
        return min(self._poll_ms, max(0, min(times, default=pace_ms + 3_600_000) - pace_ms))

    def read_words(self, now: Now) -> None:
        """Take over what people have said since it was read last."""
        silences = self._operator_input.read_silences()
        if silences is not None:
            self.policy.set_silences(silences)
        operator_input = self._operator_input.read_acknowledgements()
        if operator_input is not None:
            self.policy.acknowledge(operator_input, now)

    def write(self) -> None:
        """Alerts of our own first: the log's rows are about them."""
        if self.policy.records or self.policy.own_rows:
            self._listener.decided(self.policy.records, self.policy.own_rows)
        self._unwritten_alerts += self.policy.own_rows
        self._unwritten += self.policy.records
        self.policy.own_rows, self.policy.records = [], []
        try:
            if self._unwritten_alerts:
                self._tables.append_alerts(self._unwritten_alerts)
                self._unwritten_alerts = []
            if self._unwritten:
                self._tables.append(self._unwritten)
                self._unwritten = []
        except (DeltaError, StoreCallError, OSError) as error:
            log.error("delivery log not written, notifications continue", error=str(error)[:300])

    def _restore(self, now: Now, renewed_since_ms: int) -> int:
        history = self._tables.read_history(self.policy.outboxes, renewed_since_ms, now.wall_ms)
        self._history_until_ms = history.until_ms
        for incident_id in history.completed:
            self.policy.settle(incident_id)
        self.policy.set_silences(self._operator_input.read_silences() or [])
        restore(self.policy, history.incident_states, history.pasts, now)
        self.policy.acknowledge(self._operator_input.read_acknowledgements() or [], now)
        self.policy.advance(now)
        return history.version

    def _look(self, now: Now) -> None:
        """Read what people said, now and then, and do what time brings."""
        if now.pace_ms >= self._read_at_ms + self._poll_ms:
            self._read_at_ms = now.pace_ms
            self.read_words(now)
        self.policy.advance(now)
        for name in self._watchers:
            if name in self.policy.outboxes:
                self.policy.outboxes[name].watchdog = self._watchdog(now.wall_ms)

    def _report_owed(self, pace_ms: int) -> None:
        if pace_ms >= self._notified_owed_ms + OWED_MS:
            self._notified_owed_ms = pace_ms
            self._listener.owes({name: sum(1 for _ in box.owed()) for name, box in self.policy.outboxes.items()})

    def _settle(self, reply: Reply, now: Now) -> None:
        self._listener.answered(reply)
        records = self.policy.outboxes[reply.receiver].settle(reply.answer, now, reply.latency_ms)
        self.policy.records += records
        if reply.receiver == CANARY and any(record.status == "firing" for record in records):
            self.policy.note_canary(now)
        if reply.answer.verdict != "DELIVERED":
            log.warning(
                "notification not delivered",
                receiver=reply.receiver,
                verdict=reply.answer.verdict,
                code=reply.answer.code,
                reason=reply.answer.reason,
            )

    def _without_history(self, transitions: list[Transition]) -> list[Transition]:
        """Of what was over before a relay first looked, and was not told, only the end."""
        ends = [one for one in transitions if one.state == "RESOLVED" and one.at_ms <= self._history_until_ms]
        old = {one.incident_id for one in ends if not self._is_known(one.incident_id)}
        return [one for one in transitions if one.state == "RESOLVED" or one.incident_id not in old]

    def _is_known(self, incident_id: str) -> bool:
        incident_state = self.policy.incident_states.get(incident_id)
        return incident_state is not None and (
            incident_state.notified is not None or incident_state.withheld is not None
        )
