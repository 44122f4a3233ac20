"""A scenario monitored under conditions: the events of one run as they reach Kafka.

A machine with a wrong clock writes a wrong `event_time_ms`. Kafka's time is always true.

A collector sees poll rounds: channels, running infos and committed offsets, and nothing between two rounds. For a
client it knows when it last pulled each queue, whether the pull was sent or held back, and whether waiting messages
arrived; for a broker, which channels it lists and, mostly, their last heartbeats. A change between two rounds is dated
between them, whatever the machine's clock says.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.simulator.broker import NO_MATCHED_MSG, NO_PERMISSION, Broker, Channel
from streaming.simulator.client import Client
from streaming.simulator.conditions import Conditions, Suspects
from streaming.simulator.consumer import Consumer
from streaming.simulator.scenario import Scenario
from streaming.simulator.simulation import Simulation
from streaming.simulator.world import Event, Said
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import NO_OFFSET

REPORTED_SKEW_MS = 10_000
"""A larger clock skew is published."""

WAITING_REPEAT_MS = 60_000
"""Interval at which unchanged offsets are published again while messages wait."""

FIRST_SEEN_MS = 120_000
"""Greatest age of what is seen for the first time: CHANNEL_EXPIRED_TIMEOUT."""

IMPLAUSIBLE_MS = 60_000
"""Two heartbeats. A broker whose newest heartbeat is older has a wrong clock."""

FIRST_WAIT_MS, LONGEST_WAIT_MS = 60_000, 3_600_000
"""Backoff after a request to a client that timed out."""

Member = tuple[str, str]
"""Group and ClientId."""
Outcome = Literal["served", "dropped", "in_vain"]
Place = tuple[str, str, MessageQueue]
"""Group, ClientId, queue."""


class CollectorView:
    """One poll round per tick of the simulation. `_now_ms` is true time; the collector's clock may differ."""

    def __init__(self, simulation: Simulation, conditions: Conditions, suspects: Suspects, random: Random) -> None:
        self._simulation = simulation
        self._conditions = conditions
        self._suspects = suspects
        self._random = random
        self._ahead_ms = conditions.ahead_ms("collector")
        self._questions = Questions(conditions, suspects, random)
        self._listed: dict[str, dict[Channel, int]] = {}
        self._pulled_ms: dict[Place, int] = {}
        self._waiting_and_asked: dict[Place, tuple[int | None, int | None]] = {}
        self._offsets: dict[tuple[str, MessageQueue], tuple[int, int]] = {}
        self._published_ms: dict[tuple[str, MessageQueue], int] = {}
        self._answered_ms: dict[str, int] = {}
        self._now_ms = 0

    def watch(self, events: Iterable[tuple[str, Event]]) -> Iterator[Said]:
        """Yield sends and agents' events at once, all others at the next round, which its clock event ends."""
        routes: dict[str, Event] = {}
        for topic, event in events:
            if topic == ROUTES:
                routes[event["topic"]] = event
            elif topic == SEND_LATENCIES:
                time_ms = event["event_time_ms"]
                ahead_ms = self._suspects.client_ahead_ms(event["client_id"])
                yield topic, {**event, "event_time_ms": time_ms + ahead_ms} if ahead_ms else event, time_ms
            elif topic == CLOCKS:
                yield from self._round(event, routes)
                routes = {}
            elif self._simulation.has_agents:
                yield topic, event, event["event_time_ms"]

    def _round(self, clock: Event, routes: dict[str, Event]) -> Iterator[Said]:
        self._now_ms = true_ms = clock["event_time_ms"]
        now_ms = true_ms + self._ahead_ms
        brokers = self._simulation.brokers
        missed = {name: self._random.random() < self._conditions.missed_rounds for name in clock["brokers_answered"]}
        answering = [name for name, is_hit in missed.items() if not (is_hit and name == self._suspects.broker_name)]
        for event in routes.values():
            yield ROUTES, {**event, "event_time_ms": now_ms}, true_ms
        for name in answering:
            for event in self._heartbeats(brokers[name], now_ms):
                yield HEARTBEATS, event, true_ms
        views = {name: brokers[name] for name in answering}
        for event in self._pulls(views, now_ms):
            yield PULLS, event, true_ms
        yield CLOCKS, self._clock(clock, answering, now_ms), true_ms
        self._answered_ms.update(dict.fromkeys(answering, now_ms))

    def _heartbeats(self, broker: Broker, now_ms: int) -> Iterator[Event]:
        """Yield an event for each channel that left or sent a heartbeat since the last round."""
        name, reported = broker.broker_name, broker.asked_node.reported
        before = self._listed.get(name, {})
        spoken = [event["event_time_ms"] for event in reported.values()]
        ahead_ms = self._suspects.broker_ahead_ms(name)
        if name in self._answered_ms:
            ahead_ms -= self._known_ms(ahead_ms)
        newest_ms = max(spoken, default=0) + ahead_ms
        is_plausible = now_ms - IMPLAUSIBLE_MS <= newest_ms <= now_ms
        first_ahead_ms = ahead_ms if is_plausible else ahead_ms + now_ms - newest_ms
        for channel in [known for known in before if known not in reported]:
            yield self._heartbeat(name, channel, now_ms) | {"leaving": True}
        reached_ms = 0
        for channel, event in sorted(reported.items(), key=lambda item: item[1]["event_time_ms"]):
            spoke_ms = event["event_time_ms"]
            if channel.client.client_id in self._suspects.listed_only:
                yield self._heartbeat(name, channel, now_ms) | {"is_listed_only": True}
            elif before.get(channel) != spoke_ms:
                if channel in before:
                    placed_ms = min(max(spoke_ms + ahead_ms, self._answered_ms.get(name, 0)), now_ms)
                else:
                    placed_ms = min(max(spoke_ms + first_ahead_ms, now_ms - FIRST_SEEN_MS), now_ms)
                reached_ms = max(placed_ms, reached_ms)
                yield self._heartbeat(name, channel, reached_ms)
        self._listed[name] = {channel: event["event_time_ms"] for channel, event in reported.items()}

    def _known_ms(self, ahead_ms: int) -> int:
        """Return the skew that a collector knows of a clock it has seen before."""
        return ahead_ms if abs(ahead_ms) > REPORTED_SKEW_MS else 0

    def _heartbeat(self, broker_name: str, channel: Channel, event_time_ms: int) -> Event:
        client: Client = channel.client
        datas = [consumer.subscriptions.consumer_data for consumer in client.consumers]
        if client.client_id in self._suspects.mute:  # only the client itself reports these
            hidden = ("strategy", "consume_orderly")
            datas = [{name: value for name, value in data.items() if name not in hidden} for data in datas]
        return client.beat_event(broker_name, channel, datas) | {"event_time_ms": event_time_ms}

    def _pulls(self, views: dict[str, Broker], now_ms: int) -> Iterator[Event]:
        reported: set[tuple[str, MessageQueue]] = set()
        newest: dict[Place, tuple[int, Consumer]] = {}
        self._questions.begin(self._now_ms)
        for consumer in self._simulation.consumers():
            if self._questions.is_answered(consumer, views):
                for mq in _pulled(consumer):
                    place = consumer.consumer_group, consumer.client.client_id, mq
                    last_pull_ms = consumer.table[mq].last_pull_ms
                    if last_pull_ms > newest.get(place, (0, consumer))[0]:
                        newest[place] = last_pull_ms, consumer
        members = Counter((each.consumer_group, each.client.client_id) for each in self._simulation.consumers())
        for place, (pulled_ms, consumer) in newest.items():
            group, client_id, mq = place
            is_twin, broker, known_ms = members[place[:2]] > 1, views.get(mq.broker_name), self._pulled_ms.get(place)
            outcome = "served" if is_twin else self._outcome(place, consumer, broker)
            is_disabled = broker is not None and group in broker.consume_disabled
            self._pulled_ms[place] = max(pulled_ms, known_ms or 0)
            if pulled_ms <= (known_ms or 0) or (outcome == "in_vain" and not is_disabled):
                continue
            reported.add((group, mq))
            listed = broker.asked_node.reported if broker and not is_twin else ()
            ahead_ms, floor_ms = self._suspects.client_ahead_ms(client_id), now_ms - FIRST_SEEN_MS
            at_ms = pulled_ms + ahead_ms
            if known_ms is not None:
                at_ms -= self._known_ms(ahead_ms)
                floor_ms = self._questions.before_ms.get(place[:2], 0) + self._ahead_ms
            yield self._event(group, mq, broker) | {
                "client_addr": next((one.client_addr for one in listed if one.client is consumer.client), None),
                "client_id": client_id,
                "pull_offset": consumer.table[mq].next_offset,
                "pull_status": NO_PERMISSION if is_disabled else NO_MATCHED_MSG if outcome == "dropped" else None,
                "event_time_ms": min(max(at_ms, floor_ms), now_ms),
            }
        yield from self._offsets_alone(views, reported, now_ms)

    def _outcome(self, place: Place, consumer: Consumer, broker: Broker | None) -> Outcome:
        """Return the outcome of the pulls since the last round of a client that answers and has no twin.

        Two rounds are compared: the client's own offset while messages wait for it, and the offset that it asked for.
        """
        group, _, mq = place
        queue_end = self._simulation.max_offset(mq.topic, mq.broker_name, mq.queue_id) if broker else NO_OFFSET
        asked, own = consumer.table[mq].next_offset, consumer.offsets.to_commit(mq)
        if own == NO_OFFSET and broker is not None:
            own = broker.asked_node.offsets.query_offset(group, mq)
        before, asked_before = self._waiting_and_asked.get(place, (None, None))
        filters = consumer.of.sub_string != "*"
        is_cached = asked > own and not (filters and not consumer.is_hung and not consumer.consume_ms)
        is_waiting = own >= 0 and not is_cached and (before == own or own < queue_end)
        self._waiting_and_asked[place] = own if is_waiting else None, asked if asked < queue_end else None
        if before is None or not is_waiting or before != own:
            return "served"
        return "dropped" if filters and asked != asked_before else "in_vain"

    def _event(self, group: str, mq: MessageQueue, broker: Broker | None) -> Event:
        """Return the fields of a pull event that the broker reports."""
        event: Event = {
            "cluster": self._simulation.scenario.cluster,
            "broker_name": mq.broker_name,
            "broker_id": broker.asked_node.broker_id if broker else 0,
            "topic": mq.topic,
            "queue_id": mq.queue_id,
            "consumer_group": group,
        }
        if broker is None:
            return event | {"commit_offset": None, "max_offset": None}
        commit = broker.asked_node.offsets.query_offset(group, mq)
        queue_end = self._simulation.max_offset(mq.topic, mq.broker_name, mq.queue_id)
        self._offsets[group, mq] = commit, queue_end
        return event | {"commit_offset": commit if commit >= 0 else None, "max_offset": queue_end}

    def _offsets_alone(
        self, views: dict[str, Broker], reported: set[tuple[str, MessageQueue]], now_ms: int
    ) -> Iterator[Event]:
        """Yield the offsets of queues without a pull in this round, if they moved, and again while messages wait."""
        committed = [
            (group.consumer_group, mq)
            for group in self._simulation.scenario.groups
            for broker in views.values()
            if broker.asked_node.channels(group.consumer_group)
            for mq in broker.asked_node.offsets.offset_table.get(group.consumer_group, ())
        ]
        for group, mq in committed:
            before = self._offsets.get((group, mq))
            event = self._event(group, mq, views[mq.broker_name])
            commit, queue_end = self._offsets[group, mq]
            is_due = now_ms >= self._published_ms.get((group, mq), 0) + WAITING_REPEAT_MS and commit < queue_end
            is_due = is_due or self._offsets[group, mq] != before
            is_reported = (group, mq) in reported
            if is_due or is_reported:
                self._published_ms[group, mq] = now_ms
            if is_reported or not is_due:
                continue
            yield event | {
                "client_addr": None,
                "client_id": None,
                "pull_offset": max(event["commit_offset"] or 0, 0),
                "pull_status": None,
                "offsets_only": True,
                "event_time_ms": now_ms,
            }

    def _clock(self, clock: Event, answering: list[str], now_ms: int) -> Event:
        event = {**clock, "source": "collector", "brokers_answered": answering, "event_time_ms": now_ms}
        event["interval_ms"] = self._simulation.scenario.clock_interval_ms
        unheard = self._questions.unheard(self._ahead_ms)
        skews = [*self._skews(answering)]
        return event | ({"unheard": unheard} if unheard else {}) | ({"skews": skews} if skews else {})

    def _skews(self, answering: list[str]) -> Iterator[dict[str, Any]]:
        skew, suspects = self._conditions.skew, self._suspects
        if skew is None or abs(skew.ahead_ms) <= REPORTED_SKEW_MS:
            return
        if skew.role == "broker" and suspects.broker_name in answering:
            yield {"machine": suspects.broker_name, "role": "broker", "ahead_ms": skew.ahead_ms}
        elif skew.role == "client" and self._questions.has_answered(suspects.client_id):
            yield {"machine": suspects.client_id, "role": "client", "ahead_ms": skew.ahead_ms}


def _pulled(consumer: Consumer) -> Iterator[MessageQueue]:
    """Yield the queues that it holds and pulls; a queue that a bug keeps from being pulled sends no request."""
    if consumer.group.pull_consumers:
        return
    for mq, process_queue in consumer.table.items():
        may_pull = process_queue.locked or not consumer.is_orderly
        if process_queue.last_pull_ms and may_pull and not process_queue.dropped and not consumer.is_stopped(mq):
            yield mq


@dataclass(slots=True)
class Backoff:
    """Backoff of a member that did not answer: silent since `since_ms`, asked again at `until_ms`."""

    since_ms: int
    until_ms: int
    wait_ms: int
    reason: str


class Questions:
    """Requests to clients (GET_CONSUMER_RUNNING_INFO), and which clients did not answer."""

    def __init__(self, conditions: Conditions, suspects: Suspects, random: Random) -> None:
        self._conditions = conditions
        self._suspects = suspects
        self._random = random
        self._backoffs: dict[Member, Backoff] = {}
        self._answered_ms: dict[Member, int] = {}
        self.before_ms: dict[Member, int] = {}  # of the answer before the last, 0 without
        self._listed: set[Member] = set()
        self._now_ms = 0

    def begin(self, now_ms: int) -> None:
        """Begin a round. Members that no broker lists any more are forgotten."""
        self._now_ms = now_ms
        self._backoffs = {member: backoff for member, backoff in self._backoffs.items() if member in self._listed}
        self._listed = set()

    def is_answered(self, consumer: Consumer, views: Mapping[str, Broker]) -> bool:
        """Return whether the member is asked in this round and answers. An unlisted client is not asked."""
        client = consumer.client
        listing = [
            name for name, broker in views.items() if any(one.client is client for one in broker.asked_node.reported)
        ]
        if not listing:
            return False
        member = (consumer.consumer_group, client.client_id)
        self._listed.add(member)
        backoff = self._backoffs.get(member)
        if backoff is not None and self._now_ms < backoff.until_ms:
            backoff.reason = "left_in_peace"
            return False
        is_lost = self._random.random() < self._conditions.lost_answers
        is_reached = any(name not in client.cut for name in listing)
        if client.is_live and is_reached and not is_lost and client.client_id not in self._suspects.mute:
            self._backoffs.pop(member, None)
            self.before_ms[member] = self._answered_ms.get(member, 0)
            self._answered_ms[member] = self._now_ms
            return True
        wait_ms = min(2 * backoff.wait_ms, LONGEST_WAIT_MS) if backoff else FIRST_WAIT_MS
        since_ms = backoff.since_ms if backoff else self._now_ms
        self._backoffs[member] = Backoff(since_ms, self._now_ms + wait_ms, wait_ms, "timed_out")
        return False

    def has_answered(self, client_id: str) -> bool:
        return any(at_ms == self._now_ms and member[1] == client_id for member, at_ms in self._answered_ms.items())

    def unheard(self, ahead_ms: int) -> list[dict[str, Any]]:
        """Return the members that a broker lists and that did not answer, as the clock event has them."""
        return [
            {
                "broker_name": None,
                "consumer_group": member[0],
                "client_id": member[1],
                "reason": backoff.reason,
                "since_ms": backoff.since_ms + ahead_ms,
            }
            for member, backoff in sorted(self._backoffs.items())
            if member in self._listed
        ]


class Watched:
    """One run, which `said` advances."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        start_ms: int,
        conditions: Conditions,
        simulation: type[Simulation] = Simulation,
    ) -> None:
        if conditions.interval_ms is not None:
            scenario = scenario.model_copy(update={"clock_interval_ms": conditions.interval_ms})
        self.conditions = conditions
        self.start_ms = start_ms
        self.simulation = simulation(scenario, seed, start_ms)
        self._random = Random(f"conditions {seed}")  # noqa: S311  # reproducible
        self.suspects = Suspects(scenario, conditions, self._random)

    def said(self, duration_ms: int | None = None) -> Iterator[Said]:
        """Yield the events in the order in which they reach Kafka."""
        events = self.simulation.events(duration_ms)
        match self.conditions.view:
            case "collector":
                return CollectorView(self.simulation, self.conditions, self.suspects, self._random).watch(events)
            case "agents":
                return self._late(self._stamped(events))
            case _:
                return self._stamped(events)

    def _stamped(self, events: Iterator[tuple[str, Event]]) -> Iterator[Said]:
        """Stamp each event by its source's clock: the broker's for heartbeats and pulls, the client's for sends."""
        for topic, event in events:
            time_ms = event["event_time_ms"]
            ahead_ms = 0
            if topic in (HEARTBEATS, PULLS):
                ahead_ms = self.suspects.broker_ahead_ms(event["broker_name"])
            elif topic == SEND_LATENCIES:
                ahead_ms = self.suspects.client_ahead_ms(event["client_id"])
            yield topic, {**event, "event_time_ms": time_ms + ahead_ms} if ahead_ms else event, time_ms

    def _late(self, said: Iterator[Said]) -> Iterator[Said]:
        """Drop clock events, and delay the events of each broker by about `lag_ms`."""
        waiting: list[tuple[int, int, str, Event]] = []
        lags_ms: dict[str | None, int] = {}
        for number, (topic, event, time_ms) in enumerate(said):
            while waiting and waiting[0][0] <= time_ms:
                at_ms, _, late_topic, late_event = heapq.heappop(waiting)
                yield late_topic, late_event, at_ms
            if topic == CLOCKS:
                continue
            agent = event.get("broker_name")
            if agent not in lags_ms:
                lags_ms[agent] = round(self.conditions.lag_ms * (0.8 + 0.2 * self._random.random()))
            heapq.heappush(waiting, (time_ms + lags_ms[agent], number, topic, event))
        yield from ((topic, event, at_ms) for at_ms, _, topic, event in sorted(waiting))
