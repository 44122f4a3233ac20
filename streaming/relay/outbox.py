"""One receiver's pending notices: what to send next, when, and what its answer means.

Each incident has its own queue, strictly in order. One call is in flight at a time. Nothing pending is dropped, except
what the receiver refused, and at a leased receiver an end that would resolve a newer incident of the same alert.
"""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from conf.oncall import OnCall
from streaming.relay.notice import Notice, Now, Outcome, Record, record_of
from streaming.relay.receivers.posting import Answer, Traits
from udfs.alerts.firing_limit import rank_of
from udfs.alerts.self_kinds import LIMITS

MOST_REJECTED_ATTEMPTS = 4
"""Failed attempts of an end after which the alert's next incident no longer waits for it."""

RETRY_AFTER_MOST_MS = 3_600_000
"""A longer Retry-After is a mistake: a page cannot wait for it."""

_WRONG_ADDRESS = frozenset({404, 405, 410})


@dataclass
class Delivery:
    """A notice to deliver.

    due_at_ms          by the pace
    record_number      the delivery is sent once this many records are in the log
    rejected_attempts  failed because of the content, not for lack of an answer
    """

    notice: Notice
    route: str
    due_at_ms: int
    record_number: int = 0
    attempts: int = 0
    rejected_attempts: int = 0


@dataclass(frozen=True)
class Send:
    """One call of a receiver. A renewal repeats what the receiver has; the watchdog is one, too."""

    receiver: str
    notices: tuple[Notice, ...]
    is_renewal: bool = False


class Backoff:
    """When a receiver may be called again: its own limit, its Retry-After, or the backoff. A success resets it.

    `refusals` counts the notices since then that were refused for good.
    """

    def __init__(self, settings: OnCall, rng: random.Random) -> None:
        self._settings, self._rng = settings, rng
        self._failures = 0
        self._failing_since_ms: int | None = None
        self._is_key_bad = False
        self.refusals = 0
        self.resumes_at_ms = 0

    def answered(self, answer: Answer, now_ms: int, min_interval_ms: int) -> None:
        """Note an answer. REFUSED is about the content, unless the code is about the address."""
        if answer.verdict == "DELIVERED":
            self.refusals = 0
        elif answer.verdict == "REFUSED" and is_about_address(answer):
            self.refusals = LIMITS.most_refusals
        if answer.verdict in ("DELIVERED", "REFUSED"):
            self._failures, self._failing_since_ms, self._is_key_bad = 0, None, False
            self.resumes_at_ms = now_ms + min_interval_ms
            return
        self._failures += 1
        self._failing_since_ms = now_ms if self._failing_since_ms is None else self._failing_since_ms
        self._is_key_bad = answer.verdict == "BAD_KEY"
        if self._is_key_bad:
            pause_ms = round(1000 * self._settings.auth_retry_seconds)
        elif answer.retry_after_seconds is not None:
            pause_ms = min(round(1000 * answer.retry_after_seconds), RETRY_AFTER_MOST_MS)
        else:
            pause_ms = self.backoff_ms(1 if is_about_content(answer) else self._failures)
        self.resumes_at_ms = now_ms + max(min_interval_ms, pause_ms)

    def backoff_ms(self, failures: int) -> int:
        """Double with each failure up to the most; half of it is random, so that receivers spread."""
        settings = self._settings
        longest: float = min(settings.backoff_max_seconds, settings.backoff_min_seconds * 2 ** min(failures - 1, 30))
        return round(1000 * longest * self._rng.uniform(0.5, 1.0))

    def trouble(self, now_ms: int) -> str | None:
        """Return `bad_key`, `refuses`, or `unreachable` after a long failure; the other receivers get an alert."""
        if self._is_key_bad:
            return "bad_key"
        if self.refusals >= LIMITS.most_refusals:
            return "refuses"
        since_ms, longest_ms = self._failing_since_ms, 1000 * self._settings.delivery_failed_after_seconds
        return "unreachable" if since_ms is not None and now_ms - since_ms >= longest_ms else None


def is_about_address(answer: Answer) -> bool:
    return 300 <= (answer.code or 0) < 400 or answer.code in _WRONG_ADDRESS


def is_about_content(answer: Answer) -> bool:
    """Return whether the notice may be the cause: after a 5xx the others continue, and that one waits."""
    return answer.verdict == "RETRY" and answer.retry_after_seconds is None and (answer.code or 0) >= 500


@dataclass
class _Queue:
    """One alert at one receiver: what is pending, in order, and what it has of the newest incident.

    An alert's older incident ends before the newer one begins: some receivers know an alert by its labels only. Times
    are by the pace.
    """

    owed: deque[Delivery] = field(default_factory=deque)
    delivered: Notice | None = None
    delivered_at_ms: int = 0
    renewed_at_ms: int = 0
    not_before_ms: int = 0

    def has_newer(self, notice: Notice) -> bool:
        """Return whether a newer incident is open at the receiver."""
        there = self.delivered
        return there is not None and there.status == "firing" and there.started_at_ms > notice.started_at_ms

    def urgency(self) -> tuple[int, int, int, int]:
        """Fewest rejections first, then the worst, then the oldest."""
        first = self.owed[0]
        return first.rejected_attempts, rank_of(first.notice.severity), first.due_at_ms, first.notice.changed_at_ms


class Outbox:
    """One receiver's. `owe` adds, `pick` returns what to send now, `settle` takes the answer.

    `recorded` is the number of records that are in the log: only what is recorded is sent, and only after the last
    answer is recorded. Of a batch that is refused the next call has the first half, and so on, until the refused notice
    is alone; a success doubles the batch again.
    """

    def __init__(self, name: str, traits: Traits, settings: OnCall, rng: random.Random) -> None:
        self.name, self.traits = name, traits
        self.backoff = Backoff(settings, rng)
        self.watchdog: Notice | None = None
        self.has_delivered = False
        self.flying: Send | None = None
        self.answer_number = 0
        self._resend_ms, self._digest_ms = round(1000 * settings.resend_seconds), round(1000 * settings.digest_seconds)
        self._resolved_resend_ms = round(1000 * settings.resolved_resend_seconds)
        self._queues: dict[str, _Queue] = {}
        self._at_most = traits.at_most
        self._watched_at_ms = 0
        self._has_renewed = self._is_to_hold = False

    def owe(self, notice: Notice, route: str, due_at_ms: int, record_number: int = 0) -> None:
        """Add a delivery behind those that the alert's queue has."""
        queue = self._queues.setdefault(notice.alert_id, _Queue())
        queue.owed.append(Delivery(notice, route, due_at_ms, record_number))

    def recall(self, notice: Notice, record: Record, now: Now) -> None:
        """Take the receiver's answer from before a restart, if what it answers is pending."""
        queue = self._queues.get(notice.alert_id, _Queue())
        for delivery in [*queue.owed]:
            if delivery.notice.key == record.delivery_key and record.outcome == "RETRYING":
                delivery.attempts = max(record.attempt, delivery.attempts)
            elif delivery.notice.key == record.delivery_key:
                self._take_out(queue, delivery, record.outcome, now.pace_of(record.at_ms))
                queue.renewed_at_ms = 0
                break

    def give_up(self, now: Now) -> list[Record]:
        """Drop ends that would end a newer incident of the same alert; called before each `pick`.

        An end that the receiver rejects no longer holds up the next incident. Where an incident has a name of its own,
        the end is tried again later.
        """
        answer = Answer("REFUSED", None, "a newer incident of this alert is open at the receiver")
        records = []
        for queue in [*self._queues.values()] if self.flying is None else []:
            end = queue.owed[0] if queue.owed else None
            if end is None or end.notice.status != "resolved":
                continue
            is_in_the_way = end.rejected_attempts >= MOST_REJECTED_ATTEMPTS and len(queue.owed) > 1
            if self.traits.is_leased and (is_in_the_way or queue.has_newer(end.notice)):
                self._take_out(queue, end, "REFUSED", now.pace_ms)
                records.append(self._record(end, "REFUSED", answer, now.wall_ms, 0))
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
        self._is_to_hold = True

    def holds(self) -> bool:
        """Return whether all is renewed since `hold`."""
        return not self._is_to_hold and all(queue.renewed_at_ms for queue in self._leases())

    def renewed(self) -> Iterator[Notice]:
        """Yield the notices that are repeated because they hold a lease."""
        return (queue.delivered for queue in self._leases() if queue.delivered is not None)

    def pick(self, now: Now, recorded: int) -> Send | None:
        """Return the next call, if one is due: pending notices, then the watchdog, then renewals.

        Renewals that are an entire interval late take every second call.
        """
        if self.flying is not None:
            return None
        if self._is_to_hold:
            self._is_to_hold = False
            for queue in self._queues.values():
                queue.renewed_at_ms = 0
        if now.pace_ms < self.backoff.resumes_at_ms:
            return None
        late_ms = now.pace_ms - self._resend_ms
        are_renewals_late = not self._has_renewed and any(
            queue.renewed_at_ms and self._ready_at_ms(queue) <= late_ms for queue in self._leases()
        )
        send = self._pick_renewals(now.pace_ms) if are_renewals_late else None
        send = send or self._pick_owed(now.pace_ms, recorded)
        if send is None and self.watchdog is not None and self._watched_at_ms <= late_ms:
            send = Send(self.name, (replace(self.watchdog, changed_at_ms=now.wall_ms),), is_renewal=True)
        self.flying = send or self._pick_renewals(now.pace_ms)
        return self.flying

    def wake_at_ms(self, recorded: int) -> int | None:
        """Return when by the pace `pick` may have a call; None if only an answer or a new delivery can change that."""
        if self.flying is not None:
            return None
        times = [self._ready_at_ms(queue) for queue in [*self._sendable(recorded), *self._leases()]]
        if self.watchdog is not None:
            times.append(self._watched_at_ms + self._resend_ms)
        return max(self.backoff.resumes_at_ms, min(times)) if times else None

    def settle(self, answer: Answer, now: Now, latency_ms: int) -> list[Record]:
        """Take the answer of the call in flight; return the rows for the log."""
        send, self.flying = self.flying, None
        assert send is not None, "settle follows pick"  # noqa: S101  # a mistake of the caller, not of the receiver
        self.backoff.answered(answer, now.pace_ms, self.traits.min_interval_ms)
        if answer.verdict == "DELIVERED":
            self.has_delivered = True
            for queue in self._queues.values():
                queue.not_before_ms = 0
        self._has_renewed = send.is_renewal
        is_batch = len(send.notices) > 1 and not is_about_address(answer)
        if answer.verdict == "REFUSED" and is_batch:  # because of one of them, or of their size
            self._at_most = len(send.notices) // 2
            return []
        if answer.verdict in ("DELIVERED", "REFUSED"):
            self._at_most = min(self.traits.at_most, 2 * self._at_most)
        if send.is_renewal and answer.verdict in ("DELIVERED", "REFUSED"):
            for notice in send.notices:
                if self.watchdog is not None and notice.incident_id == self.watchdog.incident_id:
                    self._watched_at_ms = now.pace_ms
                elif notice.alert_id in self._queues:
                    self._queues[notice.alert_id].renewed_at_ms = now.pace_ms
        queues = [] if send.is_renewal else [self._queues[notice.alert_id] for notice in send.notices]
        settled = [self._settle(queue, answer, now, latency_ms) for queue in queues]
        return [record for record in settled if record is not None]

    def _settle(self, queue: _Queue, answer: Answer, now: Now, latency_ms: int) -> Record | None:
        delivery = queue.owed[0]
        outcome: Outcome = answer.verdict if answer.verdict in ("DELIVERED", "REFUSED") else "RETRYING"
        delivery.attempts += 1
        if outcome == "RETRYING":
            if is_about_content(answer):
                delivery.rejected_attempts += 1
                queue.not_before_ms = now.pace_ms + self.backoff.backoff_ms(delivery.rejected_attempts)
            if delivery.attempts & (delivery.attempts - 1):
                return None  # only 1, 2, 4, 8, ...: a receiver that is dead for a month leaves twenty rows
        else:
            self.backoff.refusals += outcome == "REFUSED"
            self._take_out(queue, delivery, outcome, now.pace_ms)
        return self._record(delivery, outcome, answer, now.wall_ms, latency_ms)

    def _sendable(self, recorded: int) -> list[_Queue]:
        """Return the queues that do not wait for the log."""
        if self.answer_number > recorded:
            return []
        return [queue for queue in self._queues.values() if queue.owed and queue.owed[0].record_number <= recorded]

    def _pick_owed(self, now_ms: int, recorded: int) -> Send | None:
        ready = [queue for queue in self._sendable(recorded) if queue.not_before_ms <= now_ms]
        if not ready or min(map(self._ready_at_ms, ready)) > now_ms:
            return None
        ready.sort(key=_Queue.urgency)
        queues = ready[: self._at_most]
        notices = []
        for queue in queues:
            there, notice = queue.delivered, queue.owed[0].notice
            notices.append(replace(notice, is_first=there is None or there.incident_id != notice.incident_id))
        return Send(self.name, tuple(notices))

    def _pick_renewals(self, now_ms: int) -> Send | None:
        for alert_id in [*self._queues] if self.traits.is_leased else []:
            self._forget_if_done(alert_id, now_ms)
        queues = [queue for queue in self._leases() if self._ready_at_ms(queue) <= now_ms]
        queues.sort(key=self._ready_at_ms)
        notices = [queue.delivered for queue in queues[: self._at_most] if queue.delivered is not None]
        renewed = tuple(replace(notice, is_first=False) for notice in notices)
        return Send(self.name, renewed, is_renewal=True) if renewed else None

    def _leases(self) -> list[_Queue]:
        """Return the queues to renew."""
        queues = self._queues.values() if self.traits.is_leased else ()
        return [queue for queue in queues if queue.delivered is not None and not queue.owed]

    def _ready_at_ms(self, queue: _Queue) -> int:
        if not queue.owed:
            return max(queue.delivered_at_ms, queue.renewed_at_ms) + self._resend_ms if queue.renewed_at_ms else 0
        first = queue.owed[0]
        is_gathered = self.traits.is_digest and not first.attempts
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

    def _record(self, delivery: Delivery, outcome: Outcome, answer: Answer, at_ms: int, latency_ms: int) -> Record:
        cells = {"receiver": self.name, "route": delivery.route, "reason": answer.reason, "code": answer.code}
        return record_of(delivery.notice, outcome, at_ms, attempt=delivery.attempts, latency_ms=latency_ms, **cells)
