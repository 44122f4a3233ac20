"""A cluster's producers together: who sends to which broker, and who shuts which broker out.

Steps wait, packed, until a tick of the clock covers them, and are then applied in the order of time; the fleet is
judged at every fifth second of event time that a tick has passed. So a log gives the same findings whether it comes
in one batch or in fifty. An item that shuts nothing out is not kept: it decides no later one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from udfs.alerts.alert import Incident, Transition, brokers_of, with_words
from udfs.alerts.life import Evaluation, Reason, Window, end
from udfs.alerts.phrase import Words, phrase
from udfs.alerts.rules import Rules
from udfs.brokers.cluster_findings import CLUSTER_NO_DATA, end_drop, find_dropped_sends, report_drop
from udfs.brokers.cluster_state import Gone
from udfs.brokers.skew import SENDS, SENDS_OF, TOLD_MS, Lag, Skew
from udfs.producers.attempts import MOMENT_MS, Attempts, Step, next_moment_ms
from udfs.producers.board import LOST_MS, Board, Flip, Health, Item

SHORT_MS = 10_000
"""An absence shorter than this counts to the next moment: from 5.1.4 on a slow broker is tried again after 2 s."""

FORGET_MS = 60_000
"""How often producers and brokers without sends are looked for."""


@dataclass
class Producer:
    """`seen_ms`: broker → newest attempt there. `known_ms` is the first attempt of all, `quick_ms` the newest that shut
    no broker out; 0 for none.
    """

    client_version: str
    seen_ms: dict[str, int] = field(default_factory=dict)
    known_ms: int = 0
    quick_ms: int = 0

    def is_alive(self, now_ms: int, idle_ms: int) -> bool:
        return max(self.seen_ms.values(), default=0) + idle_ms > now_ms


@dataclass
class Episode:
    """A condition holds since `since_ms`, short breaks included; `last_ms` is the newest moment it held."""

    since_ms: int
    last_ms: int


@dataclass
class BoardSeen:
    """The progress of a broker's own board, for its last rows (close_unasked).

    heard_ms      its newest send, or tick that asked it
    has_reported  whether a producer ever avoided it
    returns       items that time alone has brought back since `heard_ms`
    """

    heard_ms: int
    has_reported: bool = False
    returns: list[Flip] = field(default_factory=list)


@dataclass
class Fleet:
    """The state kept a cluster. `judged_ms` is the newest moment judged, `tick_ms` the newest tick received.

    producers  client_id → Producer
    shut_out   broker_name → client_id → Item, while it is unavailable and just after
    waiting    broker_name → client_id → attempts that no tick covers yet
    boards     broker_name → what its own board has had to report by
    dropped    how many runs of these were dropped since the last tick; `drop` is the incident that reports it
    episodes, incidents: by what they are about, "KIND BROKER" or "KIND"
    skew       how far attempts come behind the cluster's time
    gone       broker_name → the cluster's own alert that it is gone
    """

    producers: dict[str, Producer] = field(default_factory=dict)
    shut_out: dict[str, dict[str, Item]] = field(default_factory=dict)
    waiting: dict[str, dict[str, Attempts]] = field(default_factory=dict)
    episodes: dict[str, Episode] = field(default_factory=dict)
    incidents: dict[str, Incident] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    judged_ms: int = 0
    tick_ms: int = 0
    forgotten_ms: int = 0
    boards: dict[str, BoardSeen] = field(default_factory=dict)
    dropped: int = 0
    drop: Incident | None = None
    skew: Skew = field(default_factory=Skew)
    gone: dict[str, Gone] = field(default_factory=dict)

    def learn_lags(self, lags: Iterable[Lag]) -> None:
        """Take in what a batch shows of lags; before any of its attempts is added."""
        for lag in lags:
            self.skew.note(lag)
        self.skew.settle()

    def add(self, broker_name: str, attempts: Attempts) -> None:
        """Take in one producer's steps at one broker; they count from the next tick on."""
        seen = self.boards.setdefault(broker_name, BoardSeen(0))
        seen.heard_ms = max([seen.heard_ms, *(step.to_ms for step in attempts.steps[-1:])])
        of_broker = self.waiting.setdefault(broker_name, {})
        of_broker.setdefault(attempts.client_id, Attempts(attempts.client_id, "")).join(attempts)

    def avoiders(self, broker_name: str) -> dict[str, Item]:
        """Who shuts the broker out at this moment, or has just been back from a short absence."""
        return {
            client_id: item
            for client_id, item in self.shut_out.get(broker_name, {}).items()
            if not item.is_available
            or (item.back_ms - item.out_ms < SHORT_MS and item.back_ms + MOMENT_MS > self.judged_ms)
        }

    def senders(self, broker_name: str, idle_ms: int) -> list[str]:
        """The producers that have sent to the broker lately, or shut it out."""
        shut_out = self.shut_out.get(broker_name, {})
        return [
            client_id
            for client_id, producer in self.producers.items()
            if producer.seen_ms.get(broker_name, -idle_ms) + idle_ms > self.judged_ms or client_id in shut_out
        ]

    def fired(self, key: str) -> Incident | None:
        """The incident of this finding, if it has fired and is not over."""
        incident = self.incidents.get(key)
        return incident if incident and incident.has_fired else None

    def note_gone(self, gone: Mapping[str, Gone], now_ms: int) -> None:
        """What the cluster's alerts say of its brokers as of its tick. One that is over is kept while it explains."""
        about = {key.partition(" ")[2] for key in (*self.episodes, *self.incidents)}
        over = {name: one for name, one in self.gone.items() if name not in gone and name in about}
        for one in over.values():
            one.over_ms = now_ms if one.over_ms is None else one.over_ms
        self.gone = over | dict(gone)

    def completeness(self, idle_ms: int, silent_ms: int) -> float:
        """The share of the known producers that have sent within `silent_ms`, 0 to 1."""
        known = [one for one in self.producers.values() if one.is_alive(self.judged_ms, idle_ms)]
        heard = sum(one.is_alive(self.judged_ms, silent_ms) for one in known)
        return round(heard / len(known), 4) if known else 1.0

    def take_steps(self, last_ms: int) -> list[tuple[Step, str, str, str]]:
        """The waiting steps up to then, by the cluster's time and in its order: step, broker, client, release."""
        taken: list[tuple[Step, str, str, str]] = []
        for broker_name, of_broker in self.waiting.items():
            for client_id, attempts in of_broker.items():
                by_ms = self._apart_ms(broker_name, client_id)
                due = [step for step in attempts.steps if step.from_ms + by_ms <= last_ms]
                taken += [
                    (step.moved(by_ms) if by_ms else step, broker_name, client_id, attempts.client_version)
                    for step in due
                ]
                attempts.steps = [step for step in attempts.steps if step.from_ms + by_ms > last_ms]
        self.waiting = {
            broker_name: left
            for broker_name, of_broker in self.waiting.items()
            if (left := {client_id: attempts for client_id, attempts in of_broker.items() if attempts.steps})
        }
        return sorted(taken, key=lambda entry: (entry[0].from_ms, *entry[1:3]))

    def _apart_ms(self, broker_name: str, client_id: str) -> int:
        """By how much the times of a producer's steps at a broker are moved on to the cluster's; below 0, back.

        Attempts that come late time and again, from any source, would be over before they are known; those of a
        cluster whose time is behind would wait for it. Up, to a moment: a step must not be behind the next.
        """
        sources = ((SENDS, broker_name), (SENDS_OF, client_id))
        known = [apart_ms for source in sources if (apart_ms := self.skew.apart_ms(*source)) is not None]
        apart_ms = max(known, default=0)
        return -(-apart_ms // MOMENT_MS) * MOMENT_MS if not -TOLD_MS <= apart_ms <= MOMENT_MS else 0

    def apply(self, step: Step, broker_name: str, client_id: str, client_version: str) -> None:
        producer = self.producers.setdefault(client_id, Producer(client_version, known_ms=step.from_ms))
        producer.client_version = client_version
        if not step.is_slow:
            producer.quick_ms = max(producer.quick_ms, step.to_ms)
        seen_ms = producer.seen_ms.get(broker_name, step.from_ms)
        producer.seen_ms[broker_name] = max(seen_ms, step.to_ms)
        of_broker = self.shut_out.setdefault(broker_name, {}) if step.is_slow else self.shut_out.get(broker_name, {})
        if step.is_slow and client_id not in of_broker:
            of_broker[client_id] = Item.of(client_version, step, seen_ms)
        item = of_broker.get(client_id)
        if item is not None:
            item.expire(client_id, step.from_ms)
            flip = item.apply(client_id, client_version, step)
            if flip is not None and not flip.available:
                self.boards.setdefault(broker_name, BoardSeen(step.to_ms)).has_reported = True

    def pass_time(self, now_ms: int, idle_ms: int) -> None:
        """Items whose time has come, and what is over for good."""
        for broker_name, of_broker in self.shut_out.items():
            for client_id, item in of_broker.items():
                flip = item.expire(client_id, now_ms)
                if flip is not None and broker_name in self.boards:
                    self.boards[broker_name].returns.append(flip)
        self.shut_out = {
            broker_name: left
            for broker_name, of_broker in self.shut_out.items()
            if (left := {name: item for name, item in of_broker.items() if self._is_kept(name, item, idle_ms)})
        }
        if now_ms < self.forgotten_ms + FORGET_MS:
            return
        self.forgotten_ms = now_ms
        for client_id, producer in list(self.producers.items()):
            producer.seen_ms = {
                broker_name: seen_ms
                for broker_name, seen_ms in producer.seen_ms.items()
                if seen_ms + idle_ms > now_ms or client_id in self.shut_out.get(broker_name, {})
            }
            if not producer.seen_ms:
                del self.producers[client_id]

    def _is_kept(self, client_id: str, item: Item, idle_ms: int) -> bool:
        if item.is_available:
            return item.back_ms + MOMENT_MS > self.judged_ms
        is_over = item.start_timestamp_ms <= self.judged_ms
        return not is_over or self.producers[client_id].is_alive(self.judged_ms, idle_ms)

    def pause(self, since_ms: int) -> None:
        """Let the time since then count for no break: it is not known what the producers did."""
        for episode in self.episodes.values():
            if episode.last_ms < since_ms:
                episode.last_ms += self.judged_ms - since_ms

    def is_calm(self) -> bool:
        """No producer shuts a broker out, and nothing is open: until the next slow attempt no moment needs judging."""
        return not (self.shut_out or self.episodes or self.incidents)


KNOWN_MS = 20_000
"""How long what producers do is known after a tick or a send: of a longer gap only this part counts for a recovery."""


class Passage:
    """A fleet on its way through one batch: its steps in the order of time, applied moment by moment as ticks allow.

    It ends at the last moment before `to_ms`. In between, the fleet is as of the moment that it has come to.
    """

    def __init__(self, fleet: Fleet, to_ms: int, rules: Rules, ticks_ms: Iterable[int] = ()) -> None:
        """`ticks_ms` are the cluster's ticks since the fleet's newest one, and that one."""
        self._fleet, self._idle_ms = fleet, rules.fault_item_idle_ms
        self._last_ms = to_ms // MOMENT_MS * MOMENT_MS
        self._steps = fleet.take_steps(self._last_ms)
        ticks = sorted(tick_ms for tick_ms in ticks_ms if 0 < tick_ms <= to_ms)
        self._outages = [*self._find_outages(ticks)]
        self._position = self._slow_at = 0
        if not fleet.judged_ms:
            first = (next_moment_ms(step.from_ms) - MOMENT_MS for step, *_ in self._steps)
            fleet.judged_ms = min(first, default=self._last_ms)

    def _find_outages(self, ticks: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the spans that are further than KNOWN_MS from the tick or send before them: events may be lost."""
        for before_ms, after_ms in pairwise(ticks):
            if after_ms - before_ms > KNOWN_MS:
                known_ms = before_ms
                sends = [(step.from_ms, step.to_ms) for step, *_ in self._steps if step.from_ms < after_ms]
                for from_ms, to_ms in (*sends, (after_ms, after_ms)):
                    if from_ms > known_ms + KNOWN_MS:
                        yield known_ms + KNOWN_MS, from_ms
                    known_ms = max(known_ms, to_ms)

    def moments(self, until_ms: int | None = None) -> Iterator[int]:
        """Bring the fleet to each moment that needs judging, up to `until_ms` or to the last."""
        until_ms = self._last_ms if until_ms is None else until_ms
        while self._fleet.judged_ms < self._last_ms and (now_ms := self._next_ms()) <= until_ms:
            before_ms, self._fleet.judged_ms = self._fleet.judged_ms, now_ms
            if any(from_ms < now_ms <= to_ms for from_ms, to_ms in self._outages):
                self._fleet.pause(before_ms)
            while self._position < len(self._steps) and self._steps[self._position][0].from_ms <= now_ms:
                self._fleet.apply(*self._steps[self._position])
                self._position += 1
            self._fleet.pass_time(now_ms, self._idle_ms)
            if not self._fleet.is_calm():
                yield now_ms

    def _next_ms(self) -> int:
        """The next moment; in calm times the next that knows of a slow attempt, or the last."""
        following_ms = self._fleet.judged_ms + MOMENT_MS
        if not self._fleet.is_calm():
            return following_ms
        self._slow_at = max(self._slow_at, self._position)
        while self._slow_at < len(self._steps) and not self._steps[self._slow_at][0].is_slow:
            self._slow_at += 1
        if self._slow_at == len(self._steps):
            return self._last_ms
        return max(following_ms, next_moment_ms(self._steps[self._slow_at][0].from_ms))


def close_unasked(fleet: Fleet, idle_ms: int) -> Iterator[tuple[str, list[Flip], Health]]:
    """Yield each broker that is given up by now with its last rows; not one whose board never had a row.

    A board's time comes with its sends and with ticks that ask its broker: one that is out of the routes, or out of
    service, would keep its last k of n indefinitely.
    """
    for broker_name, seen in sorted(fleet.boards.items()):
        seen.returns = [flip for flip in seen.returns if flip.changed_at_ms > seen.heard_ms]
        is_avoided = any(not item.is_available for item in fleet.shut_out.get(broker_name, {}).values())
        over_ms = seen.heard_ms + (LOST_MS if is_avoided else idle_ms)
        if fleet.judged_ms < over_ms:
            continue
        del fleet.boards[broker_name]
        if seen.has_reported:
            yield broker_name, seen.returns, Health(0, 0, None, over_ms)


MOST_RUNS, MOST_BYTES = 300_000, 64 << 20
"""How many runs of one cluster may wait for a tick; beyond, the oldest are dropped, reported once (`events_dropped`).

10,000 producers at 20 brokers leave 200,000 between two ticks."""

KEPT_SHARE = 0.75
"""The share that a drop keeps, so that not every batch makes another."""

RUNS = phrase("{number} runs of sends were dropped in total.")

RUN_BYTES, PRODUCER_BYTES = 200, 100
"""The approximate size of a run in the state, and of a producer at a broker without its name."""


def time_of_log(fleet: Fleet, missed_ms: int, *, is_whole: bool) -> int:
    """Return how far time has come in a log that has ended and has no clock.

    It is that of the newest tick; without one, or if all is read and the tick is `missed_ms` old, of the newest send.
    """
    times = [step.to_ms for of_broker in fleet.waiting.values() for one in of_broker.values() for step in one.steps]
    newest_ms = max(times, default=0)
    if fleet.tick_ms and not (is_whole and newest_ms >= fleet.tick_ms + missed_ms):
        return fleet.tick_ms
    return max(fleet.tick_ms, next_moment_ms(newest_ms))


def drop_oldest(fleet: Fleet) -> int:
    """Drop the oldest waiting runs of send attempts beyond the bounds, and return their number."""
    runs = names = 0
    for of_broker in fleet.waiting.values():
        for client_id, attempts in of_broker.items():
            runs += len(attempts.steps)
            names += PRODUCER_BYTES + 2 * len(client_id)
    size = runs * RUN_BYTES + names
    if runs <= MOST_RUNS and size <= MOST_BYTES:
        return 0
    kept = int(min(MOST_RUNS, runs * MOST_BYTES / size) * KEPT_SHARE)
    oldest = sorted(
        (step.from_ms, broker_name, client_id, number)
        for broker_name, of_broker in fleet.waiting.items()
        for client_id, attempts in of_broker.items()
        for number, step in enumerate(attempts.steps)
    )[: runs - kept]
    gone: dict[tuple[str, str], set[int]] = {}
    for _, broker_name, client_id, number in oldest:
        gone.setdefault((broker_name, client_id), set()).add(number)
    for (broker_name, client_id), numbers in gone.items():
        of_broker = fleet.waiting[broker_name]
        of_broker[client_id].steps = [
            step for number, step in enumerate(of_broker[client_id].steps) if number not in numbers
        ]
        if not of_broker[client_id].steps:
            del of_broker[client_id]
    fleet.waiting = {broker_name: of_broker for broker_name, of_broker in fleet.waiting.items() if of_broker}
    return len(oldest)


def alerts_of_drop(fleet: Fleet, cluster: str, dropped: int, rules: Rules) -> Iterator[Transition]:
    """Count a drop, and return the alert of the first one since the newest tick."""
    waiting = [step.from_ms for of in fleet.waiting.values() for one in of.values() for step in one.steps]
    since_ms, now_ms = (max(fleet.judged_ms, pick(waiting, default=0)) for pick in (min, max))
    at_once = replace(rules.of_kind(CLUSTER_NO_DATA), pending_ms=0, pending_evaluations=1)
    return report_drop(fleet, dropped, find_dropped_sends(cluster, dropped, since_ms), now_ms, at_once, rules)


def forget_items(board: Board, now_ms: int) -> tuple[list[Flip], list[Health]]:
    """Return the last rows of the broker's items: no producer avoids a broker that is gone."""
    flips = [
        Flip(client_id, item.client_version, item.current_latency_ms, False, item.start_timestamp_ms, True, now_ms)
        for client_id, item in sorted(board.items.items())
        if not item.is_available
    ]
    had_items = bool(board.items)
    board.items.clear()
    board.has_reported = False
    return flips, [Health(0, 0, None, now_ms)] if had_items else []


def forget_of_fleet(fleet: Fleet, kind: str, name: str, now_ms: int, words: Words = "") -> Iterator[Transition]:
    """Forget a broker, or with the kind "cluster" the fleet; `words` are those of the person who decided it."""
    is_all = kind == "cluster"
    for key, incident in sorted(fleet.incidents.items()):
        if is_all or brokers_of(incident) == {name}:
            del fleet.incidents[key]
            yield with_words(end(incident, Reason.FORGOTTEN, Evaluation(now_ms)), words)
    if is_all:
        yield from (with_words(one, words) for one in end_drop(fleet, now_ms, RUNS, Reason.FORGOTTEN))
    brokers = {*fleet.shut_out, *fleet.waiting, *fleet.boards, *fleet.gone, name} if is_all else {name}
    for broker_name in brokers:
        fleet.boards.pop(broker_name, None)
        fleet.shut_out.pop(broker_name, None)
        fleet.waiting.pop(broker_name, None)
        fleet.gone.pop(broker_name, None)
    for producer in fleet.producers.values():
        for broker_name in list(producer.seen_ms):
            if is_all or broker_name == name:
                del producer.seen_ms[broker_name]
    if is_all:
        fleet.skew = Skew()
    fleet.producers = {one: producer for one, producer in fleet.producers.items() if producer.seen_ms}
    fleet.episodes = {
        key: episode for key, episode in fleet.episodes.items() if not is_all and key.partition(" ")[2] != name
    }
