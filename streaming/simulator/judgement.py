"""Who consumes each queue of a group right now, and why a queue has nobody or two: what the modelled cluster knows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from streaming.simulator import parts
from streaming.simulator.cluster import Cluster
from streaming.simulator.consumer import Consumer
from streaming.simulator.node import Channel
from streaming.simulator.slots import Slot, share_out
from udfs.rocketmq.model import MessageQueue

Causes = Mapping[MessageQueue, str]


class Judgement:
    """One look at one group. `consumers` are its processes that run, frozen ones too."""

    def __init__(self, cluster: Cluster, group: parts.Group, consumers: Sequence[Consumer]) -> None:
        self._cluster = cluster
        self._group = group
        self._consumers = consumers
        self._subscribers = [consumer for consumer in consumers if consumer.topics]
        self._channels = self._find_channels()
        self._strategies = Counter(consumer.strategy for consumer in self._subscribers)
        self._ids = Counter(consumer.client.client_id for consumer in consumers)

    def find(self) -> tuple[Causes, Causes]:
        """(starved queues, doubled queues), each with its cause."""
        starved: dict[MessageQueue, str] = {}
        doubled: dict[MessageQueue, str] = {}
        if self._group.message_model == "BROADCASTING" or not self._group.client_rebalance:
            return starved, doubled
        if self._group.lives_with_its_members and not self._consumers:
            return starved, doubled
        pullers = self._find_pullers()
        for topic in self._topics():
            lost: dict[MessageQueue, bool] = {}
            for mq, is_readable in self._cluster.queues(topic):
                if self._cluster.brokers[mq.broker_name].serving_node() is None:
                    continue
                of_queue = pullers.get(mq, []) if is_readable else []
                if len(of_queue) > 1:
                    doubled[mq] = self._why_double_consumed(of_queue)
                elif not of_queue:
                    lost[mq] = is_readable
                elif not of_queue[0].is_consuming:
                    starved[mq] = "consume_stopped"
            if lost:
                starved.update(self._why_starved(topic, lost))
        return starved, doubled

    def _topics(self) -> list[str]:
        """What somebody of the group subscribes, or is meant to."""
        if not any(self._group.topics_of(of) for of in self._group.consumers):
            return []
        topics = {topic for consumer in self._subscribers for topic in consumer.topics}
        return sorted(topics or self._group.subscriptions)

    def _find_channels(self) -> list[Channel]:
        """The group's list at the broker that knows most of it: clients are given one broker's list at random."""
        lists = [broker.asked_node.channels(self._group.consumer_group) for broker in self._cluster.brokers.values()]
        return max(lists, key=len)

    def _find_pullers(self) -> dict[MessageQueue, list[Consumer]]:
        pullers: dict[MessageQueue, list[Consumer]] = {}
        for consumer in self._consumers:
            for mq in consumer.table:
                if consumer.pulls(mq) and not self._is_disabled(mq):
                    pullers.setdefault(mq, []).append(consumer)
        return pullers

    def _is_disabled(self, mq: MessageQueue) -> bool:
        return self._group.consumer_group in self._cluster.brokers[mq.broker_name].consume_disabled

    def _why_double_consumed(self, pullers: list[Consumer]) -> str:
        if len({puller.client.client_id for puller in pullers}) < len(pullers):
            return "duplicate_client_id"
        if len({puller.strategy for puller in pullers}) > 1:
            return "mixed_strategy"
        if any(self._has_old_route(puller) for puller in pullers):
            return "stale_route"
        return self._why_views_differ() or "rebalance"

    def _why_starved(self, topic: str, lost: Mapping[MessageQueue, bool]) -> Iterator[tuple[MessageQueue, str]]:
        slots = share_out(self._group, self._strategies, self._channels, self._consumers, self._readable(topic))
        for mq, is_readable in lost.items():
            yield mq, self._why(mq, is_readable, slots.get(mq))

    def _readable(self, topic: str) -> list[MessageQueue]:
        route = self._cluster.name_server.route(topic)
        return list(route.mq_all) if route else []

    def _why(self, mq: MessageQueue, is_readable: bool, slot: Slot | None) -> str:
        if not self._consumers:
            is_listed = any(not channel.client.is_leaving for channel in self._channels)
            return "frozen_client" if is_listed else "group_offline"
        if self._is_disabled(mq):
            return "consume_disabled"
        if not is_readable:
            return "write_only_queue"
        return self._why_held(mq) or self._why_slot(mq, slot)

    def _why_held(self, mq: MessageQueue) -> str | None:
        """Somebody live holds it, and yet does not pull it."""
        for consumer in self._consumers:
            process_queue = consumer.table.get(mq)
            if process_queue is None or process_queue.dropped or not consumer.client.is_live:
                continue
            if consumer.is_stopped(mq) or consumer.is_suspended:
                return "pull_stopped"
            if mq.broker_name in consumer.client.connections.cut:
                return "split_view"
            if consumer.is_orderly and not process_queue.locked:
                return self._why_unlocked(mq)
            if any(mq.topic not in one.topics for one in self._consumers):
                return "member_not_subscribed"  # whose heartbeats take the topic from the group's subscription
            return "rebalance"  # it has not heard yet who serves, or the broker not yet what it subscribes
        return None

    def _why_unlocked(self, mq: MessageQueue) -> str:
        """order_lock when a process that does not consume the queue keeps its lock; else it will soon be won."""
        keeps = any(
            consumer.client.is_live and (process_queue := consumer.table.get(mq)) is not None and process_queue.dropped
            for consumer in self._consumers
        )
        has_master = self._cluster.brokers[mq.broker_name].master.is_up
        return "order_lock" if keeps or not has_master else "rebalance"

    def _why_slot(self, mq: MessageQueue, slot: Slot | None) -> str:
        """Nobody live holds it: whose it would be."""
        if slot is None:
            is_gap = bool(self._channels) and mq in self._readable(mq.topic)
            return "strategy_gap" if is_gap else self._why_views_differ() or "rebalance"
        client = slot.consumer.client
        if slot.is_repeated:
            return "duplicate_client_id" if self._ids[client.client_id] > 1 else "reconnect"
        if not client.is_live:
            return "rebalance" if client.is_leaving else "frozen_client"
        return self._why_not_taken(mq, slot.consumer) or self._why_views_differ() or "rebalance"

    def _why_not_taken(self, mq: MessageQueue, owner: Consumer) -> str | None:
        """Its owner lives: what keeps it from the queue."""
        if mq.topic not in owner.topics:
            return "member_not_subscribed"
        if owner.is_suspended:
            return "pull_stopped"  # and does not rebalance
        if any(mq in mqs for mqs in owner.could_not_lock.values()):
            return self._why_unlocked(mq)
        if mq.broker_name in owner.client.connections.cut:
            return "split_view"
        if self._has_old_route(owner):
            return "stale_route"
        return "mixed_strategy" if len(self._strategies) > 1 else None

    def _why_views_differ(self) -> str | None:
        """Why clients of the group may have computed by different lists of members."""
        if max(self._ids.values(), default=0) > 1:
            return "duplicate_client_id"
        if any(consumer.client.connections.cut for consumer in self._consumers):
            return "split_view"
        return None

    def _has_old_route(self, consumer: Consumer) -> bool:
        """Whether it asks the NameServer no more, and there is something new."""
        client = consumer.client
        news = (client.routes.get(topic) is not self._cluster.name_server.route(topic) for topic in consumer.topics)
        return client.keeps_route and any(news)
