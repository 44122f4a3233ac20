"""Which alerts are told, to whom, and why the others are not. The clock is the caller's; nothing is sent from here.

Told are the first FIRING row that nothing suppresses, silences or holds back, then each FIRING row whose cause or
severity changed, or whose queues did and stand still, then the RESOLVED row. What was told once is followed to its end,
whatever suppresses or silences it later; a silence only keeps the changes quiet.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from streaming.oncall.acknowledged import Acknowledged
from streaming.oncall.address_book import AddressBook
from streaming.oncall.duty import Acknowledgement, Duty
from streaming.oncall.effects import Effects
from streaming.oncall.notice import Notice
from streaming.oncall.now import Now
from streaming.oncall.outbox import Outbox
from streaming.oncall.own_alerts import OWN_KINDS
from streaming.oncall.own_book import OwnBook
from streaming.oncall.quota import Quota
from streaming.oncall.record import Outcome, Record, record_of
from streaming.oncall.silences import Silences
from streaming.oncall.story import Hold, Story, content, fired_until_ms
from streaming.oncall.transition import Transition, read_transition
from streaming.oncall.updates import Updates
from udfs.routing import Route
from udfs.silence import Silence

NO_ROUTE = "no route takes it"
"""The reason of a row UNROUTED."""

MOST_SETTLED = 100_000
"""Incidents that are over and are still known by name, so that a row read twice tells nobody twice."""


class Desk:
    """Give it rows, silences and acknowledgements; it fills the outboxes, `records` and `own_rows`.

    The caller takes the last two away: rows for alert_deliveries, and alerts of our own for the alerts table.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        outboxes: Mapping[str, Outbox],
        *,
        limit: int,
        resend_ms: int,
        quiet: Sequence[str] = (),
        lost_after_ms: int | None = None,
    ) -> None:
        """`quiet` are the receivers that get the info alerts no route takes; `lost_after_ms` is OwnBook's."""
        self.outboxes = outboxes
        self.stories: dict[str, Story] = {}
        self.settled: dict[str, None] = {}
        self.records: list[Record] = []
        self.own_rows: list[dict[str, Any]] = []
        self._silences = Silences()
        self._silenced: dict[str, Story] = {}
        self._quota = Quota(limit)
        self._addresses = AddressBook(routes, quiet, outboxes.keys(), self._quota)
        self._effects = Effects()
        self._updates = Updates()
        self._own = OwnBook(resend_ms, lost_after_ms)
        self._acknowledged = Acknowledged(outboxes)

    def observe(self, transitions: Iterable[Transition], now: Now) -> None:
        """Rows of the alerts table, seen before or not, in any order."""
        ordered = sorted(transitions, key=lambda one: (one.incident_id, one.position))
        new: list[Transition] = []
        for incident_id, group in groupby(ordered, key=lambda one: one.incident_id):
            rows = list(group)
            if incident_id in self.settled or self._was_silent_throughout(incident_id, rows, now):
                continue
            new.extend(rows)
        for transition in sorted(new, key=_chronology):
            self._take(transition, now)

    def set_silences(self, silences: Iterable[Silence]) -> None:
        self._silences.replace(silences)

    def acknowledge(self, words: Iterable[Acknowledgement], now: Now) -> None:
        """Somebody is at it: told to those receivers of the incident that can note it, once, when they know of it."""
        for word in words:
            if word.incident_id not in self.settled:
                self._acknowledged.hear(word)
                self._acknowledged.tell(word.incident_id, self.stories.get(word.incident_id, Story()), now)

    def remember_acknowledged(self, delivery_key: str, receiver: str) -> None:
        """This receiver has it already, from before a restart."""
        self._acknowledged.remember(delivery_key, receiver)

    def advance(self, now: Now) -> None:
        """Do what only time brings: silences that begin and end, our own alerts, ends that came too late."""
        if self._silences.has_changed(now.wall_ms):
            for story in [*self._silenced.values(), *self._quota.waiting()]:
                self._consider(story, now)
        for story in [*self._effects.due(now.pace_ms), *self._updates.due(now.pace_ms)]:
            self._consider(story, now)
        for row in self._own.rows(self._quota.counted(), self.outboxes, now):
            self.own_rows.append(row)
            self._take(read_transition(row), now)
        for box in self.outboxes.values():
            self.records += box.give_up(now)

    def flush(self, now: Now) -> None:
        """Tell what only waits for time to pass: the relay ends, and nobody knows when the next one comes."""
        for story in [*self._effects.flush(), *self._updates.flush()]:
            self._consider(story, now)

    def resume(self, story: Story, newest: Transition) -> None:
        """An incident that was told before a restart and is not over."""
        story.newest = newest
        self.stories[newest.incident_id] = story
        self._quota.take(newest.notice)
        self._own.note(newest)

    def settle(self, incident_id: str) -> None:
        """Nothing more will be decided about it."""
        self.stories.pop(incident_id, None)
        for part in (self._acknowledged, self._effects, self._updates):
            part.forget(incident_id)
        self.settled[incident_id] = None
        while len(self.settled) > MOST_SETTLED:
            del self.settled[next(iter(self.settled))]

    def tell_newcomers(self, now: Now) -> None:
        """An open incident is told to receivers that the routes name since a restart, too."""
        for story in self.stories.values():
            if story.told is not None:
                for receiver, route in self._addresses.receivers_of(story.told).items():
                    if receiver not in story.receivers:
                        story.receivers[receiver] = route
                        self._owe(story.told, receiver, route, now)

    def _was_silent_throughout(self, incident_id: str, rows: Sequence[Transition], now: Now) -> bool:
        """It came and went while nobody looked, and a silence covered all of it."""
        story = self.stories.get(incident_id, Story())
        if story.told is not None or rows[-1].state != "RESOLVED":
            return False
        first = next((row for row in rows if row.state == "FIRING" and row.suppressed_by is None), None)
        if first is None:
            return False
        from_ms = max(first.at_ms, story.hold.at_ms) if story.hold is not None else first.at_ms
        silence = self._silences.pick_throughout(first.notice, from_ms, fired_until_ms(rows))
        if silence is None:
            return False
        self._record(rows[-1].notice, "SILENCED", now, reason=silence.silence_id)
        self.settle(incident_id)
        return True

    def _take(self, transition: Transition, now: Now) -> None:
        story = self.stories.setdefault(transition.incident_id, Story())
        if story.newest is not None and transition.position <= story.newest.position:
            return
        story.follow(transition)
        self._own.note(transition)
        if transition.state == "RESOLVED":
            self._end(story, transition, now)
        else:
            self._consider(story, now)

    def _consider(self, story: Story, now: Now) -> None:
        """Tell its newest row, or hold it for a reason. Asked again when the reason may be gone."""
        transition = story.newest
        assert transition is not None, "it has a row"  # noqa: S101  # _take gave it one
        self._unqueue(transition)
        notice = transition.notice
        if transition.state != "FIRING" or (story.told is not None and content(notice) == content(story.told)):
            self._updates.drop(notice.incident_id)
            return
        receivers = self._addresses.receivers_of(notice)
        cause_id = transition.suppressed_by
        if cause_id is not None and self._is_explained(notice, receivers, cause_id, now):
            if story.told is None:
                self._effects.wait(notice.incident_id, story, cause_id)
                self._hold(story, notice, "SUPPRESSED", cause_id, now)
            return
        if story.told is None and not receivers:
            self._hold(story, notice, "UNROUTED", NO_ROUTE, now)
            self._free_effects(notice.incident_id, now)
            return
        if story.fired_at_ms is None:
            story.fired_at_ms = transition.at_ms
        story.last_firing = notice
        silence = self._silences.pick(notice, now.wall_ms)
        if silence is not None:
            self._silenced[notice.incident_id] = story
            self._hold(story, notice, "SILENCED", silence.silence_id, now)
        elif story.told is not None or notice.kind in OWN_KINDS:
            if story.told is None or not self._updates.is_held(story, story.told, notice, now.pace_ms):
                self._tell(story, notice, now)
        else:
            self._quota.wait(notice, story)
            self._admit(notice, now)
            if story.told is None:
                self._hold(story, notice, "HELD_BACK", self._quota.reason, now)

    def _is_explained(self, notice: Notice, receivers: Mapping[str, str], cause_id: str, now: Now) -> bool:
        cause = self.stories.get(cause_id)
        return self._effects.is_explained(notice.incident_id, receivers, cause_id, cause, now.pace_ms)

    def _admit(self, like: Notice, now: Now) -> None:
        """Tell as many of those held back as the limit leaves room for."""
        for story, notice in self._quota.admit(like):
            self._tell(story, notice, now)

    def _tell(self, story: Story, notice: Notice, now: Now) -> None:
        story.told, story.hold = notice, None
        self._quota.take(notice)
        story.receivers = {**self._addresses.receivers_of(notice), **story.receivers}
        for receiver, route in story.receivers.items():
            self._owe(notice, receiver, route, now)
        self._acknowledged.tell(notice.incident_id, story, now)
        if not story.is_heard():
            self._free_effects(notice.incident_id, now)

    def _free_effects(self, cause_id: str, now: Now, *, is_over: bool = False) -> None:
        """Nobody hears of the cause: whoever hears of its effects must."""
        for effect in self._effects.release(cause_id, is_over=is_over):
            self._consider(effect, now)

    def _end(self, story: Story, transition: Transition, now: Now) -> None:
        self._unqueue(transition)
        if story.told is None and story.hold is not None and story.hold.outcome == "SILENCED":
            self._tell_if_silence_left_a_gap(story, transition, now)
        if story.told is not None:
            for receiver, route in story.receivers.items():
                self._owe(transition.notice, receiver, route, now)
        elif story.hold is not None:
            self._record(transition.notice, story.hold.outcome, now, reason=story.hold.reason)
        self.settle(transition.incident_id)
        if not story.is_decided():
            self._free_effects(transition.incident_id, now, is_over=True)
        self._quota.free(transition.notice)
        self._admit(transition.notice, now)

    def _tell_if_silence_left_a_gap(self, story: Story, end: Transition, now: Now) -> None:
        """It fired on after its silence ended, while nobody looked: then it should have been told, and is."""
        if story.hold is None or story.last_firing is None or story.fired_at_ms is None:
            return
        from_ms = max(story.hold.at_ms, story.fired_at_ms)
        until_ms = end.at_ms if story.stopped_at_ms is None else story.stopped_at_ms
        if from_ms >= until_ms or self._silences.pick_throughout(end.notice, from_ms, until_ms):
            return
        if self._quota.has_room(end.notice):
            self._tell(story, story.last_firing, now)
        else:
            story.hold = Hold("HELD_BACK", self._quota.reason, now.wall_ms)

    def hear_canary(self, now: Now) -> None:
        """The canary has arrived."""
        self._own.hear_canary(now.pace_ms)

    def _owe(self, notice: Notice, receiver: str, route: str, now: Now) -> None:
        """Also where the receiver is not configured now: the log tells the relay that finds it again."""
        if (box := self.outboxes.get(receiver)) is not None:
            box.owe(Duty(notice, route, now.pace_ms))
        self._record(notice, "DUE", now, receiver=receiver, route=route)

    def _hold(self, story: Story, notice: Notice, outcome: Outcome, reason: str, now: Now) -> None:
        if story.hold is None or (story.hold.outcome, story.hold.reason) != (outcome, reason):
            story.hold = Hold(outcome, reason, now.wall_ms)
            self._record(notice, outcome, now, reason=reason)

    def _unqueue(self, transition: Transition) -> None:
        self._silenced.pop(transition.incident_id, None)
        self._effects.leave(transition.incident_id)
        self._quota.leave(transition.notice)

    def _record(self, notice: Notice, outcome: Outcome, now: Now, **fields: Any) -> None:
        self.records.append(record_of(notice, outcome, now.wall_ms, **fields))


def _chronology(transition: Transition) -> tuple[int, int, tuple[int, int], str]:
    """Of one moment the end of an alert's older incident comes before the beginning of the newer."""
    return transition.at_ms, transition.notice.started_at_ms, transition.position, transition.incident_id
