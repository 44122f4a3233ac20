"""A broker's lists of consumers: RocketMQ's ConsumerManager and ConsumerGroupInfo. The clock is the caller's.

The channel, not the ClientId, is the key, so two channels with one ClientId live side by side and every client of
the group is handed both. The subscriptions belong to the group, not to the channel: each heartbeat replaces the
list whole, so two processes of one group with different topics take each other's away at every heartbeat.

Read in 4.0 to 5.5, which differ in two things: registerConsumerWithoutSub came with 5.1.3, and from 5.3.1 a
broadcasting group is not told of changes.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from udfs.rocketmq.version import NEWEST, ClientVersion

CHANNEL_EXPIRED_TIMEOUT_MS = 120_000
"""ConsumerManager.CHANNEL_EXPIRED_TIMEOUT; BrokerConfig.channelExpiredTimeout from 5.0."""

SCAN_MS = 10_000
"""ClientHousekeepingService looks for silent channels this often, the first time after as long."""

_BROADCASTING_IS_NOT_TOLD: ClientVersion = (5, 3, 1)

Channel = Hashable
"""Whatever tells one connection from another: a Netty channel there, an address or an object here."""


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """One topic of a subscription. `sub_version` is the client's clock in epoch ms when it last changed it."""

    topic: str
    sub_string: str = "*"
    sub_version: int = 0
    expression_type: str = "TAG"


@dataclass(slots=True, eq=False)
class ClientChannelInfo:
    """Who speaks on a channel, and when its last heartbeat came (epoch ms)."""

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
        """registerConsumer: whether the heartbeat changed the group, which is when its clients are reported.

        `without_sub` is heartbeat V2's short form (registerConsumerWithoutSub, 5.1.3): `subscriptions` is empty
        then and means "as before", so that only a new channel is a change.
        """
        is_new_channel = self.update_channel(channel_info, now_ms)
        if without_sub:
            return is_new_channel
        return self.update_subscription(subscriptions) or is_new_channel

    def update_channel(self, channel_info: ClientChannelInfo, now_ms: int) -> bool:
        """Whether the channel is new. One that carries another ClientId than before is no change.

        RocketMQ logs that as an error and replaces the entry, and nobody is reported.
        """
        known = self.channels.get(channel_info.channel)
        if known is not None and known.client_id == channel_info.client_id:
            known.last_update_ms = now_ms
            return False
        channel_info.last_update_ms = now_ms
        self.channels[channel_info.channel] = channel_info
        return known is None

    def update_subscription(self, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Whether a topic came or went. A newer sub_version of a known topic replaces it, and is no change.

        An equal or lower sub_version is ignored, whatever it subscribes: the last to change it wins.
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
        """unregisterChannel and doChannelCloseEvent: who left, or None for a channel that was not listed."""
        return self.channels.pop(channel, None)

    def scan_not_active_channel(
        self, now_ms: int, channel_expired_timeout_ms: int = CHANNEL_EXPIRED_TIMEOUT_MS
    ) -> list[Channel]:
        """The channels silent for longer than the timeout, which are dropped and closed; nobody is told of it."""
        expired = [
            channel
            for channel, info in self.channels.items()
            if now_ms - info.last_update_ms > channel_expired_timeout_ms
        ]
        for channel in expired:
            del self.channels[channel]
        return expired

    def find_channel(self, client_id: str) -> ClientChannelInfo | None:
        """The first channel with this ClientId: a question to a client by its id reaches one of two twins.

        Which one is the accident of a hash in RocketMQ, and the longest listed here.
        """
        for info in self.channels.values():
            if info.client_id == client_id:
                return info
        return None

    def get_all_client_id(self) -> list[str]:
        """One ClientId a channel, duplicates kept, in no order a client may rely on."""
        return [info.client_id for info in self.channels.values()]

    def channels_to_notify(self, broker_version: ClientVersion = NEWEST) -> list[Channel]:
        """Whom a change is told to with NOTIFY_CONSUMER_IDS_CHANGED: every channel, the new one too.

        Nobody where the group's notifyConsumerIdsChangedEnable is off, and from 5.3.1 where it is broadcasting.
        """
        is_spared = self.message_model == "BROADCASTING" and broker_version >= _BROADCASTING_IS_NOT_TOLD
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
        """One ConsumerData of a heartbeat: whether it changed the group."""
        info = self.consumer_table.get(consumer_group)
        if info is None:
            info = self.consumer_table[consumer_group] = ConsumerGroupInfo(consumer_group)
        info.consume_type = consume_type
        info.message_model = message_model
        info.consume_from_where = consume_from_where
        return info.register_consumer(channel_info, subscriptions, now_ms, without_sub=without_sub)

    def unregister_consumer(self, consumer_group: str, channel: Channel) -> ClientChannelInfo | None:
        """UNREGISTER_CLIENT: who left. Whoever stays is reported, even when the channel was not listed."""
        info = self.consumer_table.get(consumer_group)
        left = info.unregister_channel(channel) if info else None
        self._forget_if_empty(info)
        return left

    def do_channel_close(self, channel: Channel) -> list[str]:
        """doChannelCloseEvent: the groups the channel was listed in; whoever stays in them is reported."""
        left = []
        for consumer_group, info in list(self.consumer_table.items()):
            if info.unregister_channel(channel) is not None:
                left.append(consumer_group)
                self._forget_if_empty(info)
        return left

    def scan_not_active_channel(self, now_ms: int) -> list[tuple[str, Channel]]:
        """(group, channel) of what expired. The channels are closed and nobody is told: clients learn it by poll."""
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
        """ConsumerManager.findChannel: whom GET_CONSUMER_RUNNING_INFO (307) is forwarded to."""
        info = self.consumer_table.get(consumer_group)
        return info.find_channel(client_id) if info else None

    def channels_to_notify(self, consumer_group: str, broker_version: ClientVersion = NEWEST) -> list[Channel]:
        """ConsumerGroupInfo.channels_to_notify; nobody for an unknown group."""
        info = self.consumer_table.get(consumer_group)
        return info.channels_to_notify(broker_version) if info else []

    def _forget_if_empty(self, info: ConsumerGroupInfo | None) -> None:
        if info is not None and not info.channels:
            self.consumer_table.pop(info.group_name, None)


def get_consumer_list_by_group(info: ConsumerGroupInfo | None) -> list[str] | None:
    """The answer of ConsumerManageProcessor: None, an error there, for a group without channels."""
    return info.get_all_client_id() or None if info is not None else None
