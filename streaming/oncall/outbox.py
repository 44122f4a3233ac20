"""What one receiver is still owed, what is sent to it next, and what becomes of the answer. The caller has the clock.

Each incident has a lane of its own, strictly in order; one lane's trouble holds up no other, but that an alert's next
incident waits for the end of the one before. One call is in flight at a time. Nothing owed is ever dropped but what
the receiver refused, and at a leased receiver an end that would end a newer incident.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from streaming.oncall.duty import Acknowledgement, Duty, Lane, Send
from streaming.oncall.notice import Notice
from streaming.oncall.now import Now
from streaming.oncall.pace import Pace, Patience, is_about_notice
from streaming.oncall.receiver import Answer, Receiver
from streaming.oncall.record import Outcome, Record
from streaming.oncall.succession import Succession
from udfs.page_limit import rank_of

MOST_CHOKES = 4
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

    def __init__(self, name: str, traits: Traits, pace: Pace, dice: random.Random) -> None:
        self.name, self.traits = name, traits
        self._pace = pace
        self._patience = Patience(pace, dice)
        self._lanes: dict[str, Lane] = {}
        self._succession = Succession()
        self._flying: Send | None = None
        self.watchdog: Notice | None = None
        self._watched_at_ms = 0
        self._has_renewed = False
        self.has_delivered = False

    def owe(self, duty: Duty) -> None:
        """From now on it is due, after what the incident's lane holds already."""
        self._lane(duty.notice).owed.append(duty)

    def owe_acknowledgement(self, word: Acknowledgement, notice: Notice, now: Now) -> bool:
        """False where the receiver has no use for it."""
        if not self.traits.can_acknowledge:
            return False
        self.owe(Duty(notice, "acknowledgement", now.pace_ms, acknowledgement=word))
        return True

    def remember(self, notice: Notice, delivered_at_ms: int) -> None:
        """It has this already, since then by the pace, from before a restart."""
        lane = self._lane(notice)
        lane.delivered, lane.delivered_at_ms = notice, delivered_at_ms

    def forget(self, notice: Notice) -> None:
        """Its end was given up: nothing of it is told any more."""
        self._lanes.pop(notice.incident_id, None)
        self._succession.leave(notice)

    def give_up(self, now: Now) -> list[Record]:
        """Ends that would end a newer incident of the same alert; to be asked before each `pick`."""
        if not self.traits.is_leased or self._flying is not None:
            return []
        records = []
        for lane in [lane for lane in self._lanes.values() if self._is_superseded(lane)]:
            duty = lane.owed.popleft()
            self._forget_if_done(duty.notice, lane, now.pace_ms, is_last=True)
            answer = Answer("REFUSED", None, "a newer incident of this alert is open there")
            records.append(self._record(duty, "REFUSED", answer, now.wall_ms, 0))
        return records

    def owed(self) -> Iterator[Duty]:
        """All that is due, in flight or not, each incident's in its order."""
        for lane in self._lanes.values():
            yield from lane.owed

    def renewed(self) -> Iterator[Notice]:
        """All that is told again and again, because it holds a lease there."""
        return (lane.delivered for lane in self._lanes.values() if self._is_renewed(lane) and lane.delivered)

    def is_flying(self) -> bool:
        return self._flying is not None

    def trouble(self, pace_ms: int) -> str | None:
        """Why the other receivers must hear of this one: `bad_key`, `refuses` or `unreachable`."""
        return self._patience.trouble(pace_ms)

    def pick(self, now: Now) -> Send | None:
        """The next call, if one is to be made now: what is owed, then the watchdog, then renewals."""
        now_ms = now.pace_ms
        if self._flying is not None or now_ms < self._patience.resumes_at_ms:
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
            self._is_renewed(lane) and lane.renewed_at_ms and self._ready_at_ms(lane) <= late_ms
            for lane in self._lanes.values()
        )

    def wake_at_ms(self) -> int | None:
        """When by the pace `pick` may have something; None when only an answer or a new duty can bring that about."""
        if self._flying is not None:
            return None
        lanes = [lane for lane in self._lanes.values() if lane.owed or self._is_renewed(lane)]
        times = [self._ready_at_ms(lane) for lane in lanes if not self._is_held(lane)]
        if self.watchdog is not None:
            times.append(self._watched_at_ms + self._pace.resend_ms)
        return max(self._patience.resumes_at_ms, min(times)) if times else None

    def settle(self, answer: Answer, now: Now, latency_ms: int) -> list[Record]:
        """What came of the call in flight, and the rows that it leaves in the log."""
        send, self._flying = self._flying, None
        now_ms = now.pace_ms
        assert send is not None, "settle follows pick"  # noqa: S101  # a caller's mistake, not a receiver's
        self._patience.answered(answer, now_ms, self.traits.min_interval_ms)
        if answer.verdict == "DELIVERED":
            self.has_delivered = True
            for lane in self._lanes.values():
                lane.not_before_ms = 0
        self._has_renewed = send.is_renewal
        if send.is_renewal:
            if answer.verdict in ("DELIVERED", "REFUSED"):
                self._renewed(send, now_ms)
            return []
        settled = [self._settle(duty, send, answer, now, latency_ms) for duty in send.duties]
        records = [record for record in settled if record is not None]
        if answer.verdict == "REFUSED":
            self._patience.refused(sum(1 for record in records if record.outcome == "REFUSED"))
        return records

    def _pick_owed(self, now_ms: int) -> Send | None:
        ready = [lane for lane in self._lanes.values() if lane.owed and lane.not_before_ms <= now_ms]
        ready = [lane for lane in ready if not self._is_held(lane)]
        if not ready or min(map(self._ready_at_ms, ready)) > now_ms:
            return None
        ready.sort(key=_urgency)
        groups = [lane for lane in ready if not _goes_alone(lane)]
        lanes = ready[:1] if _goes_alone(ready[0]) else groups[: self.traits.at_most]
        notices = tuple(replace(lane.owed[0].notice, is_first=lane.delivered is None) for lane in lanes)
        return Send(self.name, notices, tuple(lane.owed[0] for lane in lanes))

    def _pick_watchdog(self, now: Now) -> Send | None:
        if self.watchdog is None or now.pace_ms < self._watched_at_ms + self._pace.resend_ms:
            return None
        return Send(self.name, (replace(self.watchdog, changed_at_ms=now.wall_ms),))

    def _pick_renewals(self, now_ms: int) -> Send | None:
        for lane in list(self._lanes.values()):
            if lane.delivered is not None:
                self._forget_if_done(lane.delivered, lane, now_ms)
        lanes = [lane for lane in self._lanes.values() if self._is_renewed(lane) and self._ready_at_ms(lane) <= now_ms]
        lanes.sort(key=self._ready_at_ms)
        notices = [lane.delivered for lane in lanes[: self.traits.at_most] if lane.delivered is not None]
        return Send(self.name, tuple(replace(one, is_first=False) for one in notices)) if notices else None

    def _is_renewed(self, lane: Lane) -> bool:
        """Of one alert only the newest incident is: to whoever leases, they are the same."""
        if not self.traits.is_leased or lane.delivered is None or lane.owed:
            return False
        newer = [self._lanes[one] for one in self._succession.newer(lane.delivered)]
        return not any(one.owed or one.delivered for one in newer)

    def _is_held(self, lane: Lane) -> bool:
        """It waits until the incident before it has ended there."""
        older = [self._lanes[one] for one in self._succession.older(lane.owed[0].notice)] if lane.owed else []
        return any(
            one.owed[0].chokes < MOST_CHOKES and any(duty.status == "resolved" for duty in one.owed)
            for one in older
            if one.owed
        )

    def _is_superseded(self, lane: Lane) -> bool:
        if not lane.owed or lane.owed[0].status != "resolved":
            return False
        is_choked = lane.owed[0].chokes >= MOST_CHOKES
        newer = [self._lanes[one] for one in self._succession.newer(lane.owed[0].notice)]
        return any(one.is_open_there() or (is_choked and one.owed) for one in newer)

    def _lane(self, notice: Notice) -> Lane:
        self._succession.enter(notice)
        return self._lanes.setdefault(notice.incident_id, Lane())

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

    def _settle(self, duty: Duty, send: Send, answer: Answer, now: Now, latency_ms: int) -> Record | None:
        lane, now_ms = self._lanes[duty.notice.incident_id], now.pace_ms
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
            self._forget_if_done(duty.notice, lane, now_ms, is_last=duty.status == "resolved")
        return self._record(duty, outcome, answer, now.wall_ms, latency_ms)

    def _record(self, duty: Duty, outcome: Outcome, answer: Answer, at_ms: int, latency_ms: int) -> Record:
        return Record(
            duty.notice.incident_id,
            duty.key,
            duty.notice.kind,
            duty.status,
            outcome,
            duty.notice.changed_at_ms,
            at_ms,
            self.name,
            duty.route,
            answer.reason,
            duty.attempts,
            answer.code,
            latency_ms,
        )

    def _forget_if_done(self, notice: Notice, lane: Lane, now_ms: int, *, is_last: bool = False) -> None:
        """A lane whose end was told goes; at a leased receiver once the end need not be told again."""
        if lane.owed or (lane.is_open_there() and not is_last):
            return
        is_over = lane.delivered is not None and lane.delivered.status == "resolved"
        if self.traits.is_leased and is_over and now_ms < lane.delivered_at_ms + self._pace.resolved_resend_ms:
            return
        if is_last or is_over:
            self.forget(notice)


def _goes_alone(lane: Lane) -> bool:
    return lane.is_alone or lane.owed[0].acknowledgement is not None


def _urgency(lane: Lane) -> tuple[int, int, int, int]:
    """What the receiver has choked on least, then the worst, then the oldest."""
    duty = lane.owed[0]
    return duty.chokes, rank_of(duty.notice.severity), duty.due_at_ms, duty.notice.changed_at_ms
