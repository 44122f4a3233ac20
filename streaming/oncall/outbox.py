"""What one receiver is still owed, what is sent to it next, and what becomes of the answer. The caller has the clock.

Each incident has a queue of its own, strictly in order; one queue's trouble holds up no other, but that an alert's next
incident waits for the end of the one before. One call is in flight at a time. Nothing owed is ever dropped but what
the receiver refused, and at a leased receiver an end that would end a newer incident.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from streaming.oncall.backoff import Backoff, Pace, is_about_notice
from streaming.oncall.delivery import Acknowledgement, Delivery, IncidentQueue, Send
from streaming.oncall.notice import Notice
from streaming.oncall.now import Now
from streaming.oncall.ordering import Ordering
from streaming.oncall.receiver import Answer, Receiver
from streaming.oncall.record import Outcome, Record
from udfs.alerts.firing_limit import rank_of

MOST_REJECTED_ATTEMPTS = 4
"""An end that the receiver has choked on so often holds up the alert's next incident no longer."""


@dataclass(frozen=True)
class Traits:
    """What of a receiver decides when and how it is called."""

    at_most: int = 1
    min_interval_ms: int = 0
    is_leased: bool = False
    can_acknowledge: bool = False

    @property
    def is_digest(self) -> bool:
        """A chat: it takes many notices in one message, and few messages a minute."""
        return self.at_most > 1 and self.min_interval_ms > 0


def traits_of(receiver: Receiver) -> Traits:
    """Read from a receiver."""
    return Traits(
        receiver.at_most,
        round(receiver.min_interval_seconds * 1000),
        receiver.is_leased,
        hasattr(receiver, "acknowledge"),
    )


class Outbox:
    """One receiver's. `owe` puts in, `pick` takes out what to send now, `settle` says what came of it."""

    def __init__(self, name: str, traits: Traits, pace: Pace, rng: random.Random) -> None:
        self.name, self.traits = name, traits
        self._pace = pace
        self._backoff = Backoff(pace, rng)
        self._queues: dict[str, IncidentQueue] = {}
        self._ordering = Ordering()
        self._flying: Send | None = None
        self.watchdog: Notice | None = None
        self._watched_at_ms = 0
        self._has_renewed = False
        self.has_delivered = False

    def owe(self, delivery: Delivery) -> None:
        """From now on it is due, after what the incident's queue holds already."""
        self._queue(delivery.notice).owed.append(delivery)

    def owe_acknowledgement(self, word: Acknowledgement, notice: Notice, now: Now) -> bool:
        """False where the receiver has no use for it."""
        if not self.traits.can_acknowledge:
            return False
        self.owe(Delivery(notice, "acknowledgement", now.pace_ms, acknowledgement=word))
        return True

    def remember(self, notice: Notice, delivered_at_ms: int) -> None:
        """It has this already, since then by the pace, from before a restart."""
        queue = self._queue(notice)
        queue.delivered, queue.delivered_at_ms = notice, delivered_at_ms

    def forget(self, notice: Notice) -> None:
        """Its end was given up: nothing of it is told any more."""
        self._queues.pop(notice.incident_id, None)
        self._ordering.leave(notice)

    def give_up(self, now: Now) -> list[Record]:
        """Ends that would end a newer incident of the same alert; to be asked before each `pick`."""
        if not self.traits.is_leased or self._flying is not None:
            return []
        records = []
        for queue in [queue for queue in self._queues.values() if self._is_superseded(queue)]:
            delivery = queue.owed.popleft()
            self._forget_if_done(delivery.notice, queue, now.pace_ms, is_last=True)
            answer = Answer("REFUSED", None, "a newer incident of this alert is open at the receiver")
            records.append(self._record(delivery, "REFUSED", answer, now.wall_ms, 0))
        return records

    def owed(self) -> Iterator[Delivery]:
        """All that is due, in flight or not, each incident's in its order."""
        for queue in self._queues.values():
            yield from queue.owed

    def renewed(self) -> Iterator[Notice]:
        """All that is told again and again, because it holds a lease there."""
        return (queue.delivered for queue in self._queues.values() if self._is_renewed(queue) and queue.delivered)

    def is_flying(self) -> bool:
        return self._flying is not None

    def trouble(self, pace_ms: int) -> str | None:
        """Why the other receivers must hear of this one: `bad_key`, `refuses` or `unreachable`."""
        return self._backoff.trouble(pace_ms)

    def pick(self, now: Now) -> Send | None:
        """The next call, if one is to be made now: what is owed, then the watchdog, then renewals."""
        now_ms = now.pace_ms
        if self._flying is not None or now_ms < self._backoff.resumes_at_ms:
            return None
        first, then = self._pick_owed, self._pick_renewals
        if self._is_lease_pressing(now_ms):
            first, then = then, first
        self._flying = first(now_ms) or self._pick_watchdog(now) or then(now_ms)
        return self._flying

    def _is_lease_pressing(self, now_ms: int) -> bool:
        """Whether a renewal is a whole interval late: then each second call is for what is open there."""
        late_ms = now_ms - self._pace.resend_ms
        return not self._has_renewed and any(
            self._is_renewed(queue) and queue.renewed_at_ms and self._ready_at_ms(queue) <= late_ms
            for queue in self._queues.values()
        )

    def wake_at_ms(self) -> int | None:
        """When by the pace `pick` may have something; None when only an answer or a new delivery can change that."""
        if self._flying is not None:
            return None
        queues = [queue for queue in self._queues.values() if queue.owed or self._is_renewed(queue)]
        times = [self._ready_at_ms(queue) for queue in queues if not self._is_held(queue)]
        if self.watchdog is not None:
            times.append(self._watched_at_ms + self._pace.resend_ms)
        return max(self._backoff.resumes_at_ms, min(times)) if times else None

    def settle(self, answer: Answer, now: Now, latency_ms: int) -> list[Record]:
        """What came of the call in flight, and the rows that it leaves in the log."""
        send, self._flying = self._flying, None
        now_ms = now.pace_ms
        assert send is not None, "settle follows pick"  # noqa: S101  # a caller's mistake, not a receiver's
        self._backoff.answered(answer, now_ms, self.traits.min_interval_ms)
        if answer.verdict == "DELIVERED":
            self.has_delivered = True
            for queue in self._queues.values():
                queue.not_before_ms = 0
        self._has_renewed = send.is_renewal
        if send.is_renewal:
            if answer.verdict in ("DELIVERED", "REFUSED"):
                self._renewed(send, now_ms)
            return []
        completed = [self._settle(delivery, send, answer, now, latency_ms) for delivery in send.deliveries]
        records = [record for record in completed if record is not None]
        if answer.verdict == "REFUSED":
            self._backoff.refused(sum(1 for record in records if record.outcome == "REFUSED"))
        return records

    def _pick_owed(self, now_ms: int) -> Send | None:
        ready = [queue for queue in self._queues.values() if queue.owed and queue.not_before_ms <= now_ms]
        ready = [queue for queue in ready if not self._is_held(queue)]
        if not ready or min(map(self._ready_at_ms, ready)) > now_ms:
            return None
        ready.sort(key=_urgency)
        groups = [queue for queue in ready if not _goes_alone(queue)]
        queues = ready[:1] if _goes_alone(ready[0]) else groups[: self.traits.at_most]
        notices = tuple(replace(queue.owed[0].notice, is_first=queue.delivered is None) for queue in queues)
        return Send(self.name, notices, tuple(queue.owed[0] for queue in queues))

    def _pick_watchdog(self, now: Now) -> Send | None:
        if self.watchdog is None or now.pace_ms < self._watched_at_ms + self._pace.resend_ms:
            return None
        return Send(self.name, (replace(self.watchdog, changed_at_ms=now.wall_ms),))

    def _pick_renewals(self, now_ms: int) -> Send | None:
        for queue in list(self._queues.values()):
            if queue.delivered is not None:
                self._forget_if_done(queue.delivered, queue, now_ms)
        queues = [
            queue for queue in self._queues.values() if self._is_renewed(queue) and self._ready_at_ms(queue) <= now_ms
        ]
        queues.sort(key=self._ready_at_ms)
        notices = [queue.delivered for queue in queues[: self.traits.at_most] if queue.delivered is not None]
        return Send(self.name, tuple(replace(one, is_first=False) for one in notices)) if notices else None

    def _is_renewed(self, queue: IncidentQueue) -> bool:
        """Of one alert only the newest incident is: to whoever leases, they are the same."""
        if not self.traits.is_leased or queue.delivered is None or queue.owed:
            return False
        newer = [self._queues[one] for one in self._ordering.newer(queue.delivered)]
        return not any(one.owed or one.delivered for one in newer)

    def _is_held(self, queue: IncidentQueue) -> bool:
        """It waits until the incident before it has ended there."""
        older = [self._queues[one] for one in self._ordering.older(queue.owed[0].notice)] if queue.owed else []
        return any(
            one.owed[0].rejected_attempts < MOST_REJECTED_ATTEMPTS
            and any(delivery.status == "resolved" for delivery in one.owed)
            for one in older
            if one.owed
        )

    def _is_superseded(self, queue: IncidentQueue) -> bool:
        if not queue.owed or queue.owed[0].status != "resolved":
            return False
        is_rejected = queue.owed[0].rejected_attempts >= MOST_REJECTED_ATTEMPTS
        newer = [self._queues[one] for one in self._ordering.newer(queue.owed[0].notice)]
        return any(one.is_open_there() or (is_rejected and one.owed) for one in newer)

    def _queue(self, notice: Notice) -> IncidentQueue:
        self._ordering.enter(notice)
        return self._queues.setdefault(notice.incident_id, IncidentQueue())

    def _ready_at_ms(self, queue: IncidentQueue) -> int:
        if not queue.owed:
            return max(queue.delivered_at_ms, queue.renewed_at_ms) + self._pace.resend_ms if queue.renewed_at_ms else 0
        delivery = queue.owed[0]
        is_gathered = self.traits.is_digest and not delivery.attempts
        return max(queue.not_before_ms, delivery.due_at_ms + self._pace.digest_ms * is_gathered)

    def _renewed(self, send: Send, now_ms: int) -> None:
        for notice in send.notices:
            if self.watchdog is not None and notice.incident_id == self.watchdog.incident_id:
                self._watched_at_ms = now_ms
            elif (queue := self._queues.get(notice.incident_id)) is not None:
                queue.renewed_at_ms = now_ms

    def _settle(self, delivery: Delivery, send: Send, answer: Answer, now: Now, latency_ms: int) -> Record | None:
        queue, now_ms = self._queues[delivery.notice.incident_id], now.pace_ms
        is_refused = delivery.key in answer.refused or (
            answer.verdict == "REFUSED" and (bool(answer.refused) or len(send.deliveries) == 1)
        )
        if answer.verdict == "REFUSED" and not is_refused:
            queue.is_alone = True
            return None
        delivery.attempts += 1
        outcome: Outcome = "REFUSED" if is_refused else "DELIVERED" if answer.verdict == "DELIVERED" else "RETRYING"
        if outcome == "RETRYING":
            if is_about_notice(answer):
                delivery.rejected_attempts += 1
                queue.not_before_ms = now_ms + self._backoff.backoff_ms(delivery.rejected_attempts)
            if delivery.attempts & (delivery.attempts - 1):
                return None  # not 1, 2, 4, 8, ...: a receiver that is dead for a month leaves twenty rows
        else:
            queue.owed.popleft()
            queue.is_alone = False
            if outcome == "DELIVERED" and delivery.acknowledgement is None:
                queue.delivered, queue.delivered_at_ms, queue.renewed_at_ms = delivery.notice, now_ms, now_ms
            self._forget_if_done(delivery.notice, queue, now_ms, is_last=delivery.status == "resolved")
        return self._record(delivery, outcome, answer, now.wall_ms, latency_ms)

    def _record(self, delivery: Delivery, outcome: Outcome, answer: Answer, at_ms: int, latency_ms: int) -> Record:
        return Record(
            delivery.notice.incident_id,
            delivery.key,
            delivery.notice.kind,
            delivery.status,
            outcome,
            delivery.notice.changed_at_ms,
            at_ms,
            self.name,
            delivery.route,
            answer.reason,
            delivery.attempts,
            answer.code,
            latency_ms,
        )

    def _forget_if_done(self, notice: Notice, queue: IncidentQueue, now_ms: int, *, is_last: bool = False) -> None:
        """A queue whose end was told goes; at a leased receiver once the end need not be told again."""
        if queue.owed or (queue.is_open_there() and not is_last):
            return
        is_over = queue.delivered is not None and queue.delivered.status == "resolved"
        if self.traits.is_leased and is_over and now_ms < queue.delivered_at_ms + self._pace.resolved_resend_ms:
            return
        if is_last or is_over:
            self.forget(notice)


def _goes_alone(queue: IncidentQueue) -> bool:
    return queue.is_alone or queue.owed[0].acknowledgement is not None


def _urgency(queue: IncidentQueue) -> tuple[int, int, int, int]:
    """What the receiver has choked on least, then the worst, then the oldest."""
    delivery = queue.owed[0]
    return (
        delivery.rejected_attempts,
        rank_of(delivery.notice.severity),
        delivery.due_at_ms,
        delivery.notice.changed_at_ms,
    )
