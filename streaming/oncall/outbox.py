"""What one receiver is still owed, what is sent to it next, and what becomes of the answer. The clock is the caller's.

Each incident has a lane of its own, strictly in order; one lane's trouble holds up no other. One call is in flight at
a time. Nothing owed is ever dropped but what the receiver refused.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from streaming.oncall.duty import Acknowledgement, Duty, Lane, Send
from streaming.oncall.notice import Notice
from streaming.oncall.pace import Pace, Patience, is_about_notice
from streaming.oncall.receiver import Answer, Receiver
from streaming.oncall.record import Outcome, Record
from udfs.page_limit import rank_of


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

    def __init__(self, name: str, traits: Traits, pace: Pace, dice: random.Random) -> None:
        self.name, self.traits = name, traits
        self._pace = pace
        self._patience = Patience(pace, dice)
        self._lanes: dict[str, Lane] = {}
        self._flying: Send | None = None
        self.watchdog: Notice | None = None
        self._watched_at_ms = 0
        self.has_delivered = False

    def owe(self, duty: Duty) -> None:
        """From now on it is due, after what the incident's lane holds already."""
        self._lanes.setdefault(duty.notice.incident_id, Lane()).owed.append(duty)

    def owe_acknowledgement(self, word: Acknowledgement, notice: Notice, now_ms: int) -> bool:
        """False where the receiver has no use for it."""
        if not self.traits.can_acknowledge:
            return False
        self.owe(Duty(notice, "acknowledgement", now_ms, acknowledgement=word))
        return True

    def remember(self, notice: Notice, delivered_at_ms: int) -> None:
        """It has this already, from before a restart."""
        lane = self._lanes.setdefault(notice.incident_id, Lane())
        lane.delivered, lane.delivered_at_ms = notice, delivered_at_ms

    def owed(self) -> Iterator[Duty]:
        """All that is due, in flight or not, each incident's in its order."""
        for lane in self._lanes.values():
            yield from lane.owed

    def renewed(self) -> Iterator[Notice]:
        """All that is told again and again, because it holds a lease there."""
        return (lane.delivered for lane in self._lanes.values() if self._is_renewed(lane) and lane.delivered)

    def is_flying(self) -> bool:
        return self._flying is not None

    def trouble(self, now_ms: int) -> str | None:
        """Why the other receivers must hear of this one: `bad_key` or `unreachable`."""
        return self._patience.trouble(now_ms)

    def pick(self, now_ms: int) -> Send | None:
        """The next call, if one is to be made now: what is owed, then the watchdog, then renewals."""
        if self._flying is not None or now_ms < self._patience.resumes_at_ms:
            return None
        self._flying = self._pick_owed(now_ms) or self._pick_watchdog(now_ms) or self._pick_renewals(now_ms)
        return self._flying

    def wake_at_ms(self) -> int | None:
        """When `pick` may have something, as things are; None when only an answer or a new duty can change that."""
        if self._flying is not None:
            return None
        times = [self._ready_at_ms(lane) for lane in self._lanes.values() if lane.owed or self._is_renewed(lane)]
        if self.watchdog is not None:
            times.append(self._watched_at_ms + self._pace.resend_ms)
        return max(self._patience.resumes_at_ms, min(times)) if times else None

    def settle(self, answer: Answer, now_ms: int, latency_ms: int) -> list[Record]:
        """What came of the call in flight, and the rows that it leaves in the log."""
        send, self._flying = self._flying, None
        assert send is not None, "settle follows pick"  # noqa: S101  # a caller's mistake, not a receiver's
        self._patience.answered(answer, now_ms, self.traits.min_interval_ms)
        if answer.verdict == "DELIVERED":
            self.has_delivered = True
            for lane in self._lanes.values():
                lane.not_before_ms = 0
        if send.is_renewal:
            if answer.verdict in ("DELIVERED", "REFUSED"):
                self._renewed(send, now_ms)
            return []
        records = [self._settle(duty, send, answer, now_ms, latency_ms) for duty in send.duties]
        return [record for record in records if record is not None]

    def _pick_owed(self, now_ms: int) -> Send | None:
        ready = [lane for lane in self._lanes.values() if lane.owed and lane.not_before_ms <= now_ms]
        if not ready or min(map(self._ready_at_ms, ready)) > now_ms:
            return None
        ready.sort(key=_urgency)
        groups = [lane for lane in ready if not _goes_alone(lane)]
        lanes = ready[:1] if _goes_alone(ready[0]) else groups[: self.traits.at_most]
        notices = tuple(replace(lane.owed[0].notice, is_first=lane.delivered is None) for lane in lanes)
        return Send(self.name, notices, tuple(lane.owed[0] for lane in lanes))

    def _pick_watchdog(self, now_ms: int) -> Send | None:
        if self.watchdog is None or now_ms < self._watched_at_ms + self._pace.resend_ms:
            return None
        return Send(self.name, (replace(self.watchdog, changed_at_ms=now_ms),))

    def _pick_renewals(self, now_ms: int) -> Send | None:
        for incident_id, lane in list(self._lanes.items()):
            self._forget_if_done(incident_id, lane, now_ms)
        lanes = [lane for lane in self._lanes.values() if self._is_renewed(lane) and self._ready_at_ms(lane) <= now_ms]
        notices = [lane.delivered for lane in lanes[: self.traits.at_most] if lane.delivered is not None]
        return Send(self.name, tuple(replace(one, is_first=False) for one in notices)) if notices else None

    def _is_renewed(self, lane: Lane) -> bool:
        return self.traits.is_leased and lane.delivered is not None and not lane.owed

    def _ready_at_ms(self, lane: Lane) -> int:
        if not lane.owed:
            return max(lane.delivered_at_ms, lane.renewed_at_ms) + self._pace.resend_ms if lane.renewed_at_ms else 0
        duty = lane.owed[0]
        is_gathered = self.traits.is_digest and not duty.attempts
        return max(lane.not_before_ms, duty.due_at_ms + self._pace.digest_ms * is_gathered)

    def _renewed(self, send: Send, now_ms: int) -> None:
        for notice in send.notices:
            if self.watchdog is not None and notice.incident_id == self.watchdog.incident_id:
                self._watched_at_ms = now_ms
            elif (lane := self._lanes.get(notice.incident_id)) is not None:
                lane.renewed_at_ms = now_ms

    def _settle(self, duty: Duty, send: Send, answer: Answer, now_ms: int, latency_ms: int) -> Record | None:
        lane = self._lanes[duty.notice.incident_id]
        is_refused = duty.key in answer.refused or (
            answer.verdict == "REFUSED" and (bool(answer.refused) or len(send.duties) == 1)
        )
        if answer.verdict == "REFUSED" and not is_refused:
            lane.is_alone = True
            return None
        duty.attempts += 1
        outcome: Outcome = "REFUSED" if is_refused else "DELIVERED" if answer.verdict == "DELIVERED" else "RETRYING"
        if outcome == "RETRYING":
            if is_about_notice(answer):
                duty.chokes += 1
                lane.not_before_ms = now_ms + self._patience.backoff_ms(duty.chokes)
            if duty.attempts & (duty.attempts - 1):
                return None  # not 1, 2, 4, 8, ...: a receiver that is dead for a month leaves twenty rows
        else:
            lane.owed.popleft()
            lane.is_alone = False
            if outcome == "DELIVERED" and duty.acknowledgement is None:
                lane.delivered, lane.delivered_at_ms, lane.renewed_at_ms = duty.notice, now_ms, now_ms
            self._forget_if_done(duty.notice.incident_id, lane, now_ms, is_last=duty.status == "resolved")
        return Record(
            duty.notice.incident_id,
            duty.key,
            duty.notice.kind,
            duty.status,
            outcome,
            duty.notice.changed_at_ms,
            now_ms,
            self.name,
            duty.route,
            answer.reason,
            duty.attempts,
            answer.code,
            latency_ms,
        )

    def _forget_if_done(self, incident_id: str, lane: Lane, now_ms: int, *, is_last: bool = False) -> None:
        """A lane whose end was told goes; at a leased receiver once the end need not be told again."""
        if lane.owed or (lane.is_open_there() and not is_last):
            return
        is_over = lane.delivered is not None and lane.delivered.status == "resolved"
        if self.traits.is_leased and is_over and now_ms < lane.delivered_at_ms + self._pace.resolved_resend_ms:
            return
        if is_last or is_over:
            del self._lanes[incident_id]


def _goes_alone(lane: Lane) -> bool:
    return lane.is_alone or lane.owed[0].acknowledgement is not None


def _urgency(lane: Lane) -> tuple[int, int, int, int]:
    """What the receiver has choked on least, then the worst, then the oldest."""
    duty = lane.owed[0]
    return duty.chokes, rank_of(duty.notice.severity), duty.due_at_ms, duty.notice.changed_at_ms
