"""One receiver's pending notices: what to send next, when, and what its answer means.

Each alert has its own queue, strictly in order. One call is in flight at a time. Nothing pending is dropped, except
what the receiver refused, and at a leased receiver an end that would resolve a newer incident of the same alert.
"""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from conf.oncall import OnCall
from streaming.relay.notice import Notice, Now, Outcome, record_of
from streaming.relay.receivers.posting import Answer, Traits
from streaming.warehouse.readable_rows import Row
from udfs.alerts.firing_limit import rank_of
from udfs.alerts.self_kinds import LIMITS

MOST_REJECTED_ATTEMPTS = 4
"""Failed attempts of an end after which the alert's next incident no longer waits for it."""

_WRONG_ADDRESS = frozenset({404, 405, 410})


@dataclass
class Delivery:
    """A notice to deliver.

    due_at_ms          by the pace
    rejected_attempts  failed because of the content, not for lack of an answer
    """

    notice: Notice
    route: str
    due_at_ms: int
    attempts: int = 0
    rejected_attempts: int = 0

    def urgency(self) -> tuple[int, int, int, int]:
        """Fewest rejections first, then the worst, then the oldest."""
        return self.rejected_attempts, rank_of(self.notice.severity), self.due_at_ms, self.notice.changed_at_ms

    def why(self) -> str:
        """Return why it is pending."""
        if self.notice.status == "acknowledged":
            return self.notice.reason or ""
        calls = "call" if self.attempts == 1 else "calls"
        return f"pending after {self.attempts} failed {calls}" if self.attempts else "pending"


@dataclass(frozen=True)
class Send:
    """One call of a receiver. A renewal repeats what the receiver has; the watchdog is one, too."""

    receiver: str
    notices: tuple[Notice, ...]
    is_renewal: bool = False


@dataclass
class _Queue:
    """One alert at one receiver: what is pending, in order, and what it has of the newest incident.

    An alert's older incident ends before the newer one begins: some receivers know an alert by its labels only. Times
    are by the pace; `renewed_at_ms` is 0 if a renewal is due at once.
    """

    owed: deque[Delivery] = field(default_factory=deque)
    delivered: Notice | None = None
    delivered_at_ms: int = 0
    renewed_at_ms: int = 0
    not_before_ms: int = 0


class Outbox:
    """One receiver's. `owe` adds, `pick` returns what to send now, `settle` takes the answer.

    Pending notices are sent only while all decisions and answers are in the log (`is_recorded`). Of a batch that is
    refused the next call has the first half, and so on, until the refused notice is alone; a success doubles the batch
    again.

    After an answer the receiver is called again after its own limit, its Retry-After, or a backoff.
    """

    def __init__(self, name: str, traits: Traits, settings: OnCall, rng: random.Random) -> None:
        self.name, self.traits = name, traits
        self.watchdog: Notice | None = None
        self.has_delivered = False
        self.flying: Send | None = None
        self._settings, self._rng = settings, rng
        self._resend_ms, self._digest_ms = round(1000 * settings.resend_seconds), round(1000 * settings.digest_seconds)
        self._resolved_resend_ms = round(1000 * settings.resolved_resend_seconds)
        self._queues: dict[str, _Queue] = {}
        self._at_most = traits.at_most
        self._watched_at_ms = 0
        self._has_renewed = self._is_held = self._is_to_hold = self._is_key_bad = False
        self._failures = self._refusals = self._resumes_at_ms = 0
        self._failing_since_ms: int | None = None

    def owe(self, notice: Notice, route: str, due_at_ms: int) -> None:
        """Add a delivery behind those that the alert's queue has."""
        queue = self._queues.setdefault(notice.alert_id, _Queue())
        queue.owed.append(Delivery(notice, route, due_at_ms))

    def recall(self, notice: Notice, record: Row, now: Now) -> None:
        """Take the receiver's answer from before a restart, if what it answers is pending."""
        queue = self._queues.get(notice.alert_id, _Queue())
        delivery = next((one for one in queue.owed if one.notice.key == record["delivery_key"]), None)
        if delivery is not None and record["outcome"] == "RETRYING":
            delivery.attempts = max(record["attempt"], delivery.attempts)
        elif delivery is not None:
            self._take_out(queue, delivery, record["outcome"], now.pace_of(record["delivered_at"]))
            queue.renewed_at_ms = 0

    def give_up(self, now: Now) -> list[Row]:
        """Drop ends that would end a newer incident of the same alert; called before each `pick`.

        An end that the receiver rejects no longer holds up the next incident. Where each incident has a
        separate name, the end is tried again later.
        """
        answer = Answer("REFUSED", None, "a newer incident of this alert is open at the receiver")
        records = []
        for queue in [*self._queues.values()] if self.flying is None else []:
            end, there = queue.owed[0] if queue.owed else None, queue.delivered
            if end is None or end.notice.status != "resolved":
                continue
            is_older = there and there.status == "firing" and there.started_at_ms > end.notice.started_at_ms
            is_in_the_way = end.rejected_attempts >= MOST_REJECTED_ATTEMPTS and len(queue.owed) > 1
            if self.traits.is_leased and (is_in_the_way or is_older):
                self._take_out(queue, end, "REFUSED", now.pace_ms)
                records.append(self._record(end, "REFUSED", answer, now, 0))
            elif is_in_the_way and not queue.owed[1].rejected_attempts:
                queue.owed.rotate(-1)
                queue.not_before_ms = 0
        return records

    def owed(self) -> Iterator[Delivery]:
        """Yield all pending deliveries, in flight or not, those of an incident in order."""
        for queue in self._queues.values():
            yield from queue.owed

    def count(self) -> int:
        return sum(len(queue.owed) for queue in self._queues.values())

    def hold(self) -> None:
        """Make every renewal due, after the call in flight."""
        self._is_held = self._is_to_hold = True

    def holds(self) -> bool:
        """Return whether all is renewed since `hold`, if it was called."""
        return not self._is_held or (not self._is_to_hold and all(queue.renewed_at_ms for queue in self._leases()))

    def renewed(self) -> Iterator[Notice]:
        """Yield the notices that are repeated because they hold a lease."""
        return (queue.delivered for queue in self._leases() if queue.delivered is not None)

    def trouble(self, now_ms: int) -> str | None:
        """Return `bad_key`, `refuses`, or `unreachable` after a long failure; the other receivers get an alert."""
        if self._is_key_bad:
            return "bad_key"
        if self._refusals >= LIMITS.most_refusals:
            return "refuses"
        since_ms, longest_ms = self._failing_since_ms, 1000 * self._settings.delivery_failed_after_seconds
        return "unreachable" if since_ms is not None and now_ms - since_ms >= longest_ms else None

    def pick(self, now: Now, *, is_recorded: bool) -> Send | None:
        """Return the next call, if one is due: pending notices, then the watchdog, then renewals.

        Renewals that are an entire interval late take every second call.
        """
        if self.flying is not None:
            return None
        if self._is_to_hold:
            self._is_to_hold = False
            for queue in self._queues.values():
                queue.renewed_at_ms = 0
        if now.pace_ms < self._resumes_at_ms:
            return None
        late_ms = now.pace_ms - self._resend_ms
        are_renewals_late = not self._has_renewed and any(
            queue.renewed_at_ms and self._ready_at_ms(queue) <= late_ms for queue in self._leases()
        )
        renewals = self._pick_renewals(now.pace_ms) if self.traits.is_leased else None
        ready = [one for one in self._queues.values() if one.owed and one.not_before_ms <= now.pace_ms and is_recorded]
        if are_renewals_late and renewals:
            self.flying = renewals
        elif ready and min(map(self._ready_at_ms, ready)) <= now.pace_ms:
            notices = []
            for queue in sorted(ready, key=lambda queue: queue.owed[0].urgency())[: self._at_most]:
                there, notice = queue.delivered, queue.owed[0].notice
                notices.append(replace(notice, is_first=there is None or there.incident_id != notice.incident_id))
            self.flying = Send(self.name, tuple(notices))
        elif self.watchdog is not None and self._watched_at_ms <= late_ms:
            self.flying = Send(self.name, (replace(self.watchdog, changed_at_ms=now.wall_ms),), is_renewal=True)
        else:
            self.flying = renewals
        return self.flying

    def wake_at_ms(self, *, is_recorded: bool) -> int | None:
        """Return when by the pace `pick` may have a call; None if only an answer or a new delivery can change that."""
        if self.flying is not None:
            return None
        queues = [queue for queue in self._queues.values() if queue.owed and is_recorded]
        times = [self._ready_at_ms(queue) for queue in [*queues, *self._leases()]]
        if self.watchdog is not None:
            times.append(self._watched_at_ms + self._resend_ms)
        return max(self._resumes_at_ms, min(times)) if times else None

    def settle(self, answer: Answer, now: Now, latency_ms: int) -> list[Row]:
        """Take the answer of the call in flight; return the rows for the log."""
        send, self.flying = self.flying, None
        assert send is not None, "settle follows pick"  # noqa: S101  # a mistake of the caller, not of the receiver
        is_final = answer.verdict in ("DELIVERED", "REFUSED")
        is_about_address = answer.code in _WRONG_ADDRESS or 300 <= (answer.code or 0) < 400
        # After a 5xx the notice may be the cause: the others continue, and that one waits.
        is_about_content = not is_final and answer.retry_after_seconds is None and (answer.code or 0) >= 500
        self._set_pause(answer, now.pace_ms, is_about_content=is_about_content)
        if answer.verdict == "DELIVERED":
            self.has_delivered, self._refusals = True, 0
            for queue in self._queues.values():
                queue.not_before_ms = 0
        self._has_renewed = send.is_renewal
        if answer.verdict == "REFUSED":
            if is_about_address:
                self._refusals = LIMITS.most_refusals
            elif len(send.notices) > 1:  # because of one of them, or of their size
                self._at_most = len(send.notices) // 2
                return []
        if is_final:
            self._at_most = min(self.traits.at_most, 2 * self._at_most)
        records: list[Row] = []
        for notice in send.notices:
            known = self._queues.get(notice.alert_id)
            if not send.is_renewal and known is not None:
                records += self._settle(known, answer, now, latency_ms, is_about_content=is_about_content)
            elif is_final and self.watchdog is not None and notice.incident_id == self.watchdog.incident_id:
                self._watched_at_ms = now.pace_ms
            elif is_final and known is not None:
                known.renewed_at_ms = now.pace_ms
        return records

    def _set_pause(self, answer: Answer, now_ms: int, *, is_about_content: bool) -> None:
        """Note when the receiver may be called again."""
        if answer.verdict in ("DELIVERED", "REFUSED"):
            self._failures, self._failing_since_ms, self._is_key_bad = 0, None, False
            pause_ms = 0
        else:
            self._failures += 1
            self._failing_since_ms = now_ms if self._failing_since_ms is None else self._failing_since_ms
            self._is_key_bad = answer.verdict == "BAD_KEY"
            if self._is_key_bad:
                pause_ms = round(1000 * self._settings.auth_retry_seconds)
            elif answer.retry_after_seconds is not None:
                pause_ms = round(1000 * answer.retry_after_seconds)
            else:
                pause_ms = self._backoff_ms(1 if is_about_content else self._failures)
        self._resumes_at_ms = now_ms + max(self.traits.min_interval_ms, pause_ms)

    def _backoff_ms(self, failures: int) -> int:
        """Double with each failure up to the most; half of it is random, so that receivers spread."""
        settings = self._settings
        longest: float = min(settings.backoff_max_seconds, settings.backoff_min_seconds * 2 ** min(failures - 1, 30))
        return round(1000 * longest * self._rng.uniform(0.5, 1.0))

    def _settle(
        self, queue: _Queue, answer: Answer, now: Now, latency_ms: int, *, is_about_content: bool
    ) -> Iterator[Row]:
        delivery = queue.owed[0]
        outcome: Outcome = answer.verdict if answer.verdict in ("DELIVERED", "REFUSED") else "RETRYING"
        delivery.attempts += 1
        if outcome == "RETRYING":
            if is_about_content:
                delivery.rejected_attempts += 1
                queue.not_before_ms = now.pace_ms + self._backoff_ms(delivery.rejected_attempts)
            if delivery.attempts & (delivery.attempts - 1):
                return  # only 1, 2, 4, 8, ...: a receiver that is dead for a month leaves twenty rows
        else:
            self._refusals += outcome == "REFUSED"
            self._take_out(queue, delivery, outcome, now.pace_ms)
        yield self._record(delivery, outcome, answer, now, latency_ms)

    def _pick_renewals(self, now_ms: int) -> Send | None:
        for alert_id in [*self._queues]:
            self._forget_if_done(alert_id, now_ms)
        due = sorted((queue for queue in self._leases() if self._ready_at_ms(queue) <= now_ms), key=self._ready_at_ms)
        notices = [replace(queue.delivered, is_first=False) for queue in due[: self._at_most] if queue.delivered]
        return Send(self.name, tuple(notices), is_renewal=True) if notices else None

    def _leases(self) -> list[_Queue]:
        """Return the queues to renew."""
        queues = self._queues.values() if self.traits.is_leased else ()
        return [queue for queue in queues if queue.delivered is not None and not queue.owed]

    def _ready_at_ms(self, queue: _Queue) -> int:
        if not queue.owed:
            return max(queue.delivered_at_ms, queue.renewed_at_ms) + self._resend_ms if queue.renewed_at_ms else 0
        first = queue.owed[0]
        # A chat takes many notices in one message, and few messages a minute.
        is_gathered = self.traits.at_most > 1 and self.traits.min_interval_ms > 0 and not first.attempts
        return max(queue.not_before_ms, first.due_at_ms + self._digest_ms * is_gathered)

    def _take_out(self, queue: _Queue, delivery: Delivery, outcome: Outcome, at_ms: int) -> None:
        """Take out a delivery that is answered or given up."""
        notice, there = delivery.notice, queue.delivered
        queue.owed.remove(delivery)
        if outcome == "DELIVERED" and notice.status != "acknowledged":
            if there is None or there.started_at_ms <= notice.started_at_ms:
                queue.delivered, queue.delivered_at_ms, queue.renewed_at_ms = notice, at_ms, at_ms
        elif notice.status == "resolved" and there is not None and there.incident_id == notice.incident_id:
            queue.delivered = None
        self._forget_if_done(notice.alert_id, at_ms)

    def _forget_if_done(self, alert_id: str, now_ms: int) -> None:
        """Drop a queue whose end is delivered; at a leased receiver once the end need not be repeated."""
        queue = self._queues[alert_id]
        there = queue.delivered
        is_repeated = self.traits.is_leased and now_ms < queue.delivered_at_ms + self._resolved_resend_ms
        if not queue.owed and (there is None or (there.status == "resolved" and not is_repeated)):
            del self._queues[alert_id]

    def _record(self, delivery: Delivery, outcome: Outcome, answer: Answer, now: Now, latency_ms: int) -> Row:
        cells = {"receiver": self.name, "route": delivery.route, "reason": answer.reason, "code": answer.code}
        return record_of(
            delivery.notice, outcome, now.wall_ms, attempt=delivery.attempts, latency_ms=latency_ms, **cells
        )
