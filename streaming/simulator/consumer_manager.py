"""A broker's lists of consumers: RocketMQ's ConsumerManager and ConsumerGroupInfo. The clock is the caller's.

The channel, not the ClientId, is the key, so two channels with one ClientId exist side by side and every client of the
group gets both. Subscriptions belong to the group, not to the channel: each heartbeat replaces the entire list, so two
processes of one group with different topics remove each other's topics at every heartbeat.

Mirrors 5.3.1 to 5.5. Older releases also notify broadcasting groups of changes.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import ProcessQueue, rebalance_rules
from udfs.rocketmq.version import NEWEST, ClientVersion

CHANNEL_EXPIRED_TIMEOUT_MS = 120_000
"""ConsumerManager.CHANNEL_EXPIRED_TIMEOUT; BrokerConfig.channelExpiredTimeout from 5.0."""

SCAN_MS = 10_000
"""Period in which ClientHousekeepingService scans for silent channels, first after one period."""

Channel = Hashable
"""The identity of a connection: a Netty channel in RocketMQ, an address or an object here."""


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """One topic of a subscription. `sub_version` is the client's time of its last change, epoch ms."""

    topic: str
    sub_string: str = "*"
    sub_version: int = 0
    expression_type: str = "TAG"


@dataclass(slots=True, eq=False)
class ClientChannelInfo:
    """The client of a channel, and its last heartbeat (epoch ms)."""

    channel: Channel
    client_id: str
    last_update_ms: int = 0


@dataclass(slots=True, eq=False)
class ConsumerGroupInfo:
    """One group at one broker. `consume_type`, `message_model` and `consume_from_where` are the last heartbeat's."""

    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    channels: dict[Channel, ClientChannelInfo] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)


class ConsumerManager:
    """The groups of one broker. A group whose last channel leaves is forgotten, its subscriptions too."""

    __slots__ = ("consumer_table",)

    def __init__(self) -> None:
        self.consumer_table: dict[str, ConsumerGroupInfo] = {}

    def register_consumer(
        self,
        consumer_group: str,
        channel_info: ClientChannelInfo,
        subscriptions: Iterable[SubscriptionData],
        now_ms: int,
        *,
        consume_type: str = "CONSUME_PASSIVELY",
        message_model: str = "CLUSTERING",
        consume_from_where: str = "CONSUME_FROM_LAST_OFFSET",
        without_sub: bool = False,
    ) -> bool:
        """Register one ConsumerData of a heartbeat; return whether it changed the group: then its clients are notified.

        A new channel is a change, and so is a topic that was added or removed. A known channel with another ClientId is
        none: RocketMQ logs an error and replaces the entry. Neither is a newer sub_version of a known topic, which
        replaces it; an equal or lower one is ignored. `without_sub` is heartbeat V2's short form
        (registerConsumerWithoutSub, 5.1.3): the empty `subscriptions` then mean "as before".
        """
        info = self.consumer_table.get(consumer_group)
        if info is None:
            info = self.consumer_table[consumer_group] = ConsumerGroupInfo()
        info.consume_type = consume_type
        info.message_model = message_model
        info.consume_from_where = consume_from_where
        is_new_channel = channel_info.channel not in info.channels
        channel_info.last_update_ms = now_ms
        info.channels[channel_info.channel] = channel_info
        if without_sub:
            return is_new_channel
        before, info.subscriptions = info.subscriptions, {}
        for subscription in subscriptions:
            known = before.get(subscription.topic, subscription)
            is_newer = subscription.sub_version > known.sub_version
            info.subscriptions[subscription.topic] = subscription if is_newer else known
        return is_new_channel or before.keys() != info.subscriptions.keys()

    def unregister_consumer(self, consumer_group: str, channel: Channel) -> ClientChannelInfo | None:
        """Handle UNREGISTER_CLIENT, or a closed channel; return the client that left, None for an unlisted channel."""
        info = self.consumer_table.get(consumer_group)
        left = info.channels.pop(channel, None) if info else None
        if info is not None and not info.channels:
            del self.consumer_table[consumer_group]
        return left

    def do_channel_close(self, channel: Channel) -> list[str]:
        """Handle doChannelCloseEvent; return the groups that listed the channel. Their other clients are notified."""
        return [name for name in list(self.consumer_table) if self.unregister_consumer(name, channel)]

    def scan_not_active_channel(self, now_ms: int) -> list[tuple[str, Channel]]:
        """Drop and return (group, channel) that were silent for longer than the timeout. No client is notified."""
        expired = [
            (consumer_group, channel)
            for consumer_group, info in self.consumer_table.items()
            for channel, client in info.channels.items()
            if now_ms - client.last_update_ms > CHANNEL_EXPIRED_TIMEOUT_MS
        ]
        for consumer_group, channel in expired:
            self.unregister_consumer(consumer_group, channel)
        return expired

    def get_consumer_list_by_group(self, consumer_group: str) -> list[str] | None:
        """GET_CONSUMER_LIST_BY_GROUP (38): one ClientId per channel, with duplicates; None, an error, without any."""
        info = self.consumer_table.get(consumer_group)
        return [client.client_id for client in info.channels.values()] if info else None

    def channels_to_notify(self, consumer_group: str) -> list[Channel]:
        """Return the channels to notify with NOTIFY_CONSUMER_IDS_CHANGED: all, the new one too; none of a broadcast."""
        info = self.consumer_table.get(consumer_group)
        return list(info.channels) if info and info.message_model != "BROADCASTING" else []


REBALANCE_LOCK_MAX_LIVE_MS = 60_000
"""RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME: time after which an unrenewed lock expires."""

LOCK_ALL_MS = 20_000
"""ProcessQueue.REBALANCE_LOCK_INTERVAL: period in which an orderly consumer renews its locks."""

LOCK_ALL_FIRST_MS = 1_000
"""ConsumeMessageOrderlyService.start: time from the start to the first renewal."""


@dataclass(slots=True, eq=False)
class LockEntry:
    """The holder of a queue, and the time of its last request (epoch ms)."""

    client_id: str
    last_update_ms: int


class RebalanceLockManager:
    """One broker's locks of ordered consumption: group → queue → entry. Mirrors 4.0 to 5.5.

    A lock belongs to a group's ClientId, not to a channel: two processes with one ClientId both hold it, and an order
    that looks locked is broken. Only masters are asked; a slave read never renews a lock.
    """

    __slots__ = ("mq_lock_table",)

    def __init__(self) -> None:
        self.mq_lock_table: dict[str, dict[MessageQueue, LockEntry]] = {}

    def try_lock(self, consumer_group: str, mq: MessageQueue, client_id: str, now_ms: int) -> bool:
        """Return whether `client_id` holds the queue now. A request renews a held lock and takes an expired one."""
        entries = self.mq_lock_table.setdefault(consumer_group, {})
        entry = entries.setdefault(mq, LockEntry(client_id, now_ms))
        if entry.client_id != client_id and now_ms - entry.last_update_ms <= REBALANCE_LOCK_MAX_LIVE_MS:
            return False
        entry.client_id, entry.last_update_ms = client_id, now_ms
        return True

    def try_lock_batch(
        self, consumer_group: str, mqs: Iterable[MessageQueue], client_id: str, now_ms: int
    ) -> set[MessageQueue]:
        """LOCK_BATCH_MQ (41): return those of `mqs` that `client_id` holds now."""
        return {mq for mq in mqs if self.try_lock(consumer_group, mq, client_id, now_ms)}

    def unlock_batch(self, consumer_group: str, mqs: Iterable[MessageQueue], client_id: str) -> None:
        """UNLOCK_BATCH_MQ (42): release. Locks of another ClientId stay, expired or not."""
        entries = self.mq_lock_table.get(consumer_group, {})
        for mq in mqs:
            entry = entries.get(mq)
            if entry is not None and entry.client_id == client_id:
                del entries[mq]


def lock_all(
    table: Mapping[MessageQueue, ProcessQueue],
    lock_batch: Callable[[str, set[MessageQueue]], set[MessageQueue] | None],
    now_ms: int,
    client_version: ClientVersion = NEWEST,
) -> None:
    """RebalanceImpl.lockAll: request all queues of each broker at once.

    `lock_batch(broker_name, mqs)` returns None if the broker has no master or does not answer: its queues keep their
    flag, and `is_lock_expired` stops them 30 s after the last lock. A refused queue is not consumed until a later round
    gets it. Up to 4.9.8 dropped queues are requested too.
    """
    asks_for_dropped = rebalance_rules(client_version).locks_dropped_queues
    by_broker: dict[str, set[MessageQueue]] = {}
    for mq, process_queue in table.items():
        if asks_for_dropped or not process_queue.dropped:
            by_broker.setdefault(mq.broker_name, set()).add(mq)
    for broker_name, mqs in by_broker.items():
        locked_mqs = lock_batch(broker_name, mqs)
        if locked_mqs is None:
            continue
        for mq in mqs:
            table[mq].locked = mq in locked_mqs
            if table[mq].locked:
                table[mq].last_lock_ms = now_ms


def may_pull_orderly(process_queue: ProcessQueue) -> bool:
    """DefaultMQPushConsumerImpl.pullMessage: an orderly consumer pulls only locked queues, else retries after 3 s."""
    return process_queue.locked and not process_queue.dropped
