"""A modelled cluster as a collector's rounds tell it: brokers' lists, clients' running infos, committed offsets.

Between two rounds nothing is seen. Of a client the collector knows when each of its queues was pulled last, whether
the pull was sent or held back, and whether what waited came; of a broker, which channels it lists and, mostly, when
each spoke last. What moved since the round before happened between the two, whatever its clock says; a plain collector
trusts the clock, and every pull.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.simulator.broker import NO_MATCHED_MSG, NO_PERMISSION, Broker
from streaming.simulator.conditions import Conditions
from streaming.simulator.consumer import Consumer
from streaming.simulator.node import Channel
from streaming.simulator.questions import Questions
from streaming.simulator.simulation import Simulation
from streaming.simulator.suspects import Suspects
from streaming.simulator.waiting import Outcome, Place, Waiting
from streaming.simulator.world import Event
from udfs.rocketmq.model import MessageQueue

TOLD_SKEW_MS = 10_000
"""A clock that is further off is told."""

WAITING_REPEAT_MS = 60_000
"""The offsets of a queue with waiting messages are published again after this, though neither moves."""

FIRST_SEEN_MS = 120_000
"""What is seen for the first time is not taken to be older: CHANNEL_EXPIRED_TIMEOUT."""

IMPLAUSIBLE_MS = 60_000
"""Two heartbeats: a broker whose newest one is older has another clock."""

Said = tuple[str, Event, int]


class CollectorView:
    """Rounds, one a tick of the simulation. `_now_ms` is true time; the collector's clock may be another."""

    def __init__(self, simulation: Simulation, conditions: Conditions, suspects: Suspects, random: Random) -> None:
        self._simulation = simulation
        self._conditions = conditions
        self._suspects = suspects
        self._random = random
        self._ahead_ms = conditions.ahead_ms("collector")
        self._questions = Questions(conditions, suspects, random)
        self._listed: dict[str, dict[Channel, int]] = {}
        self._pulled_ms: dict[Place, int] = {}
        self._waiting = Waiting(simulation)
        self._offsets: dict[tuple[str, MessageQueue], tuple[int, int]] = {}
        self._published_ms: dict[tuple[str, MessageQueue], int] = {}
        self._answered_ms: dict[str, int] = {}
        self._round_ms = 0
        self._now_ms = 0

    def watch(self, events: Iterable[tuple[str, Event]]) -> Iterator[Said]:
        """Yield events of producers and agents at once, all others at the next round; its clock event comes last."""
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
            elif self._simulation.watchers.has_agents:
                yield topic, event, event["event_time_ms"]

    def _round(self, clock: Event, routes: dict[str, Event]) -> Iterator[Said]:
        self._now_ms = true_ms = clock["event_time_ms"]
        now_ms = true_ms + self._ahead_ms
        brokers = self._simulation.brokers
        answering = [name for name in clock["brokers_answered"] if not self._misses(name)]
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
        self._round_ms = now_ms

    def _misses(self, broker_name: str) -> bool:
        is_hit = self._random.random() < self._conditions.missed_rounds
        return is_hit and broker_name == self._suspects.broker_name

    def _heartbeats(self, broker: Broker, now_ms: int) -> Iterator[Event]:
        """Who is listed no more has left; who is listed spoke, if its last heartbeat is a new one."""
        name, reported = broker.broker_name, broker.asked_node.reported
        before = self._listed.get(name, {})
        spoken = [event["event_time_ms"] for event in reported.values()]
        ahead_ms = self._suspects.broker_ahead_ms(name)
        if name in self._answered_ms:
            ahead_ms -= self._known_ms(ahead_ms)
        newest_ms = max(spoken, default=0) + ahead_ms
        for channel in before.keys() - reported.keys():
            yield self._heartbeat(name, channel, now_ms) | {"leaving": True}
        reached_ms = 0
        for channel, event in sorted(reported.items(), key=lambda item: item[1]["event_time_ms"]):
            spoke_ms = event["event_time_ms"]
            if channel.client.client_id in self._suspects.listed_only:
                listed = self._heartbeat(name, channel, now_ms)
                yield listed if self._conditions.is_plain else listed | {"is_listed_only": True}
            elif before.get(channel) != spoke_ms:
                at_ms = spoke_ms + ahead_ms
                if channel in before:
                    placed_ms = self._clamp(at_ms, self._answered_ms.get(name, 0), now_ms)
                else:
                    placed_ms = self._first_seen(at_ms, newest_ms, now_ms)
                reached_ms = placed_ms if self._conditions.is_plain else max(placed_ms, reached_ms)
                yield self._heartbeat(name, channel, reached_ms)
        self._listed[name] = {channel: event["event_time_ms"] for channel, event in reported.items()}

    def _first_seen(self, time_ms: int, newest_ms: int, now_ms: int) -> int:
        """Nothing was known before: the broker's newest heartbeat is about now when its clock cannot be right."""
        if self._conditions.is_plain:
            return min(time_ms, now_ms)
        is_plausible = now_ms - IMPLAUSIBLE_MS <= newest_ms <= now_ms
        return self._clamp(time_ms if is_plausible else time_ms + now_ms - newest_ms, now_ms - FIRST_SEEN_MS, now_ms)

    def _known_ms(self, ahead_ms: int) -> int:
        """How far off a collector knows a clock to be that has answered before."""
        return ahead_ms if abs(ahead_ms) > TOLD_SKEW_MS and not self._conditions.is_plain else 0

    def _clamp(self, time_ms: int, floor_ms: int, now_ms: int) -> int:
        return min(time_ms if self._conditions.is_plain else max(time_ms, floor_ms), now_ms)

    def _heartbeat(self, broker_name: str, channel: Channel, event_time_ms: int) -> Event:
        client = channel.client
        datas = [consumer.subscriptions.consumer_data for consumer in client.consumers]
        if client.client_id in self._suspects.mute:  # only the client itself tells these
            datas = [_without(data, "strategy", "consume_orderly") for data in datas]
        return client.beat_event(broker_name, channel, datas) | {"event_time_ms": event_time_ms}

    def _pulls(self, views: dict[str, Broker], now_ms: int) -> Iterator[Event]:
        reported: set[tuple[str, MessageQueue]] = set()
        newest: dict[Place, tuple[int, Consumer]] = {}
        self._questions.begin(self._now_ms)
        for consumer in self._simulation.consumers():
            if self._questions.is_answered(consumer, views):
                for mq in _pulled(consumer):
                    place, at_ms = (consumer.consumer_group, consumer.client.client_id, mq), consumer.table[mq]
                    if at_ms.last_pull_ms > newest.get(place, (0, consumer))[0]:
                        newest[place] = at_ms.last_pull_ms, consumer
        twins = self._twins()
        for place, (pulled_ms, consumer) in newest.items():
            is_twin = place[:2] in twins
            outcome = "served" if is_twin else self._outcome(consumer, place[2], views.get(place[2].broker_name))
            if outcome == "in_vain":
                self._pulled_ms[place] = pulled_ms
            elif pulled_ms > self._pulled_ms.get(place, 0):
                reported.add((place[0], place[2]))
                yield self._pull(consumer, place[2], pulled_ms, now_ms, views, is_known=place in self._pulled_ms) | (
                    {"client_addr": None}
                    if is_twin
                    else {"pull_status": NO_MATCHED_MSG}
                    if outcome == "dropped"
                    else {}
                )
                self._pulled_ms[place] = pulled_ms
        yield from self._offsets_alone(views, reported, now_ms)

    def _outcome(self, consumer: Consumer, mq: MessageQueue, broker: Broker | None) -> Outcome:
        is_refused = broker is not None and consumer.consumer_group in broker.consume_disabled
        found = self._waiting.outcome(consumer, mq, broker)
        return "served" if self._conditions.is_plain or is_refused else found

    def _twins(self) -> set[tuple[str, str]]:
        seen: dict[tuple[str, str], set[int]] = {}
        for consumer in self._simulation.consumers():
            member = (consumer.consumer_group, consumer.client.client_id)
            seen.setdefault(member, set()).add(id(consumer.client))
        return {member for member, clients in seen.items() if len(clients) > 1}

    def _pull(
        self,
        consumer: Consumer,
        mq: MessageQueue,
        pulled_ms: int,
        now_ms: int,
        views: dict[str, Broker],
        *,
        is_known: bool,
    ) -> Event:
        client, group = consumer.client, consumer.consumer_group
        broker = views.get(mq.broker_name)
        channel = next((one for one in broker.asked_node.reported if one.client is client), None) if broker else None
        ahead_ms = self._suspects.client_ahead_ms(client.client_id)
        at_ms = pulled_ms + ahead_ms - (self._known_ms(ahead_ms) if is_known else 0)
        before_ms = self._questions.answered_before_ms(consumer) + self._ahead_ms
        floor_ms = before_ms if is_known else now_ms - FIRST_SEEN_MS
        return {
            "cluster": self._simulation.scenario.cluster,
            "broker_name": mq.broker_name,
            "broker_id": broker.asked_node.broker_id if broker else 0,
            "topic": mq.topic,
            "queue_id": mq.queue_id,
            "consumer_group": group,
            "client_addr": channel.client_addr if channel else None,
            "client_id": client.client_id,
            "pull_offset": consumer.table[mq].next_offset,
            **self._reported_offsets(group, mq, broker),
            "pull_status": NO_PERMISSION if broker and group in broker.consume_disabled else None,
            "event_time_ms": self._clamp(at_ms, floor_ms, now_ms),
        }

    def _reported_offsets(self, group: str, mq: MessageQueue, broker: Broker | None) -> dict[str, Any]:
        if broker is None:
            return {"commit_offset": None, "max_offset": None}
        commit = broker.asked_node.offsets.query_offset(group, mq)
        queue_end = self._simulation.max_offset(mq.topic, mq.broker_name, mq.queue_id)
        self._offsets[group, mq] = commit, queue_end
        return {"commit_offset": commit if commit >= 0 else None, "max_offset": queue_end}

    def _offsets_alone(
        self, views: dict[str, Broker], reported: set[tuple[str, MessageQueue]], now_ms: int
    ) -> Iterator[Event]:
        """Offsets of queues without a pull in this round, where they moved, and again while messages wait."""
        if self._conditions.is_plain:
            return
        for group, mq in self._committed(views):
            broker = views[mq.broker_name]
            before = self._offsets.get((group, mq))
            offsets = self._reported_offsets(group, mq, broker)
            commit, queue_end = self._offsets[group, mq]
            is_due = now_ms >= self._published_ms.get((group, mq), 0) + WAITING_REPEAT_MS and commit < queue_end
            if self._offsets[group, mq] == before and not is_due and (group, mq) not in reported:
                continue
            self._published_ms[group, mq] = now_ms
            if (group, mq) in reported:
                continue
            yield {
                "cluster": self._simulation.scenario.cluster,
                "broker_name": mq.broker_name,
                "broker_id": broker.asked_node.broker_id,
                "topic": mq.topic,
                "queue_id": mq.queue_id,
                "consumer_group": group,
                "client_addr": None,
                "client_id": None,
                "pull_offset": max(offsets["commit_offset"] or 0, 0),
                **offsets,
                "pull_status": None,
                "offsets_only": True,
                "event_time_ms": now_ms,
            }

    def _committed(self, views: dict[str, Broker]) -> Iterator[tuple[str, MessageQueue]]:
        """The queues of each listed group of which a broker knows a commit."""
        for group in self._simulation.scenario.groups:
            for broker in views.values():
                if broker.asked_node.channels(group.consumer_group):
                    for mq in list(broker.asked_node.offsets.offset_table.get(group.consumer_group, ())):
                        yield group.consumer_group, mq

    def _clock(self, clock: Event, answering: list[str], now_ms: int) -> Event:
        event = {**clock, "source": "collector", "brokers_answered": answering, "event_time_ms": now_ms}
        if self._conditions.is_plain:
            return event
        event["interval_ms"] = self._simulation.scenario.clock_interval_ms
        unheard = self._questions.unheard(self._ahead_ms)
        skews = [*self._skews(answering)]
        return event | ({"unheard": unheard} if unheard else {}) | ({"skews": skews} if skews else {})

    def _skews(self, answering: list[str]) -> Iterator[dict[str, Any]]:
        for role, machine, ahead_ms in (
            ("broker", self._suspects.broker_name, self._conditions.ahead_ms("broker")),
            ("client", self._suspects.client_id, self._conditions.ahead_ms("client")),
        ):
            is_seen = machine in answering if role == "broker" else self._questions.has_answered(machine)
            if abs(ahead_ms) > TOLD_SKEW_MS and is_seen:
                yield {"machine": machine, "role": role, "ahead_ms": ahead_ms}


def _pulled(consumer: Consumer) -> Iterator[MessageQueue]:
    """What it holds and asks for. One that pulls no more by a bug makes no request, so its time stands still."""
    if consumer.group.pull_consumers:
        return
    for mq, process_queue in consumer.table.items():
        may_pull = process_queue.locked or not consumer.is_orderly
        if process_queue.last_pull_ms and may_pull and not process_queue.dropped and not consumer.is_stopped(mq):
            yield mq


def _without(data: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}
