"""A broker's lists of consumers: RocketMQ's ConsumerManager and ConsumerGroupInfo. The clock is the caller's.

The channel, not the ClientId, is the key, so two channels with one ClientId exist side by side and every client of the
group gets both. Subscriptions belong to the group, not to the channel: each heartbeat replaces the entire list, so two
processes of one group with different topics remove each other's topics at every heartbeat.

Mirrors 4.0 to 5.5, which differ twice: registerConsumerWithoutSub exists from 5.1.3, and from 5.3.1 a broadcasting
group is not notified of changes.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from udfs.rocketmq.version import NEWEST, ClientVersion

CHANNEL_EXPIRED_TIMEOUT_MS = 120_000
"""ConsumerManager.CHANNEL_EXPIRED_TIMEOUT; BrokerConfig.channelExpiredTimeout from 5.0."""

SCAN_MS = 10_000
"""Period in which ClientHousekeepingService scans for silent channels, first after one period."""

_NO_BROADCASTING_NOTICE: ClientVersion = (5, 3, 1)

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
    language: str = "JAVA"
    version: str = ""
    last_update_ms: int = 0


@dataclass(slots=True, eq=False)
class ConsumerGroupInfo:
    """One group at one broker. `consume_type`, `message_model` and `consume_from_where` are the last heartbeat's."""

    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    notify_consumer_ids_changed_enable: bool = True
    channels: dict[Channel, ClientChannelInfo] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)

    def register_consumer(
        self,
        channel_info: ClientChannelInfo,
        subscriptions: Iterable[SubscriptionData],
        now_ms: int,
        *,
        without_sub: bool = False,
    ) -> bool:
        """registerConsumer: return whether the heartbeat changed the group; then its clients are notified.

        `without_sub` is heartbeat V2's short form (registerConsumerWithoutSub, 5.1.3): the empty `subscriptions` then
        mean "as before", so only a new channel is a change.
        """
        is_new_channel = self.update_channel(channel_info, now_ms)
        if without_sub:
            return is_new_channel
        return self.update_subscription(subscriptions) or is_new_channel

    def update_channel(self, channel_info: ClientChannelInfo, now_ms: int) -> bool:
        """Update the channel; return whether it is new.

        A known channel with another ClientId is no change: RocketMQ logs an error and replaces the entry.
        """
        known = self.channels.get(channel_info.channel)
        if known is not None and known.client_id == channel_info.client_id:
            known.last_update_ms = now_ms
            return False
        channel_info.last_update_ms = now_ms
        self.channels[channel_info.channel] = channel_info
        return known is None

    def update_subscription(self, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Replace the subscriptions; return whether a topic was added or removed.

        A newer sub_version of a known topic replaces it, which is no change. An equal or lower one is ignored.
        """
        changed = False
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            known = self.subscriptions.get(subscription.topic)
            if known is None:
                self.subscriptions[subscription.topic] = subscription
                changed = True
            elif subscription.sub_version > known.sub_version:
                self.subscriptions[subscription.topic] = subscription
        if len(topics) != len(self.subscriptions):
            for topic in self.subscriptions.keys() - topics:
                del self.subscriptions[topic]
            changed = True
        return changed

    def unregister_channel(self, channel: Channel) -> ClientChannelInfo | None:
        """unregisterChannel and doChannelCloseEvent: return the client that left; None for an unlisted channel."""
        return self.channels.pop(channel, None)

    def scan_not_active_channel(
        self, now_ms: int, channel_expired_timeout_ms: int = CHANNEL_EXPIRED_TIMEOUT_MS
    ) -> list[Channel]:
        """Drop and return the channels that were silent for longer than the timeout. No client is notified."""
        expired = [
            channel
            for channel, info in self.channels.items()
            if now_ms - info.last_update_ms > channel_expired_timeout_ms
        ]
        for channel in expired:
            del self.channels[channel]
        return expired

    def find_channel(self, client_id: str) -> ClientChannelInfo | None:
        """Return the first channel with this ClientId: a request by ClientId reaches one of two twins.

        Which one depends on a hash in RocketMQ; here it is the one listed longest.
        """
        for info in self.channels.values():
            if info.client_id == client_id:
                return info
        return None

    def get_all_client_id(self) -> list[str]:
        """Return one ClientId per channel, with duplicates, in no reliable order."""
        return [info.client_id for info in self.channels.values()]

    def channels_to_notify(self, broker_version: ClientVersion = NEWEST) -> list[Channel]:
        """Return the channels to notify with NOTIFY_CONSUMER_IDS_CHANGED: all, the new one too.

        None if the group's notifyConsumerIdsChangedEnable is off, or from 5.3.1 if it is broadcasting.
        """
        is_spared = self.message_model == "BROADCASTING" and broker_version >= _NO_BROADCASTING_NOTICE
        return [] if is_spared or not self.notify_consumer_ids_changed_enable else list(self.channels)


class ConsumerManager:
    """The groups of one broker. A group whose last channel leaves is forgotten, its subscriptions too."""

    __slots__ = ("channel_expired_timeout_ms", "consumer_table")

    def __init__(self, channel_expired_timeout_ms: int = CHANNEL_EXPIRED_TIMEOUT_MS) -> None:
        self.consumer_table: dict[str, ConsumerGroupInfo] = {}
        self.channel_expired_timeout_ms = channel_expired_timeout_ms

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
        """Register one ConsumerData of a heartbeat; return whether it changed the group."""
        info = self.consumer_table.get(consumer_group)
        if info is None:
            info = self.consumer_table[consumer_group] = ConsumerGroupInfo(consumer_group)
        info.consume_type = consume_type
        info.message_model = message_model
        info.consume_from_where = consume_from_where
        return info.register_consumer(channel_info, subscriptions, now_ms, without_sub=without_sub)

    def unregister_consumer(self, consumer_group: str, channel: Channel) -> ClientChannelInfo | None:
        """Handle UNREGISTER_CLIENT; return the client that left. Others are notified even for an unlisted channel."""
        info = self.consumer_table.get(consumer_group)
        left = info.unregister_channel(channel) if info else None
        self._forget_if_empty(info)
        return left

    def do_channel_close(self, channel: Channel) -> list[str]:
        """Handle doChannelCloseEvent; return the groups that listed the channel. Their other clients are notified."""
        left = []
        for consumer_group, info in list(self.consumer_table.items()):
            if info.unregister_channel(channel) is not None:
                left.append(consumer_group)
                self._forget_if_empty(info)
        return left

    def scan_not_active_channel(self, now_ms: int) -> list[tuple[str, Channel]]:
        """Return (group, channel) of expired channels. They are closed without a notification: clients poll."""
        expired = []
        for consumer_group, info in list(self.consumer_table.items()):
            for channel in info.scan_not_active_channel(now_ms, self.channel_expired_timeout_ms):
                expired.append((consumer_group, channel))
            self._forget_if_empty(info)
        return expired

    def get_consumer_list_by_group(self, consumer_group: str) -> list[str] | None:
        """GET_CONSUMER_LIST_BY_GROUP (38): ClientIds with duplicates, or None for the error of an unknown group."""
        return get_consumer_list_by_group(self.consumer_table.get(consumer_group))

    def find_channel(self, consumer_group: str, client_id: str) -> ClientChannelInfo | None:
        """ConsumerManager.findChannel: return the channel to which GET_CONSUMER_RUNNING_INFO (307) is forwarded."""
        info = self.consumer_table.get(consumer_group)
        return info.find_channel(client_id) if info else None

    def channels_to_notify(self, consumer_group: str, broker_version: ClientVersion = NEWEST) -> list[Channel]:
        """ConsumerGroupInfo.channels_to_notify; empty for an unknown group."""
        info = self.consumer_table.get(consumer_group)
        return info.channels_to_notify(broker_version) if info else []

    def _forget_if_empty(self, info: ConsumerGroupInfo | None) -> None:
        if info is not None and not info.channels:
            self.consumer_table.pop(info.group_name, None)


def get_consumer_list_by_group(info: ConsumerGroupInfo | None) -> list[str] | None:
    """The answer of ConsumerManageProcessor: None, an error there, for a group without channels."""
    return info.get_all_client_id() or None if info is not None else None
