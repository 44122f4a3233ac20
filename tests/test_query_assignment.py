"""A real broker as judge: whom it lists and tells, who gets a lock, and what QUERY_ASSIGNMENT gives each client."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from random import Random
from typing import Any

import pytest

from streaming.simulator.consumer_manager import ClientChannelInfo, ConsumerManager, SubscriptionData
from streaming.simulator.queue_lock import RebalanceLockManager
from tests.remoting import (
    GET_CONSUMER_LIST_BY_GROUP,
    HEART_BEAT,
    LOCK_BATCH_MQ,
    NOTIFY_CONSUMER_IDS_CHANGED,
    QUERY_ASSIGNMENT,
    UNLOCK_BATCH_MQ,
    UNREGISTER_CLIENT,
    Channel,
    heartbeat,
)
from tests.rocketmq import RocketMQ
from tests.rocketmq_server import wait_for
from udfs.rocketmq.allocation import allocate
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.rebalance import rebalance_by_topic, sort_client_ids

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

QUEUE_NUMS = {"trades": 8, "quotes": 3, "audit": 1}
GROUPS = (f"group_{number}" for number in count())
CLIENTS = ("10.0.0.1@7", "10.0.0.10@7", "10.0.0.2@7", "10.0.0.2@71", "A", "a", "\u5ba2\u6237@1")

FIRST_BROKER = "broker-a"


class Cluster:
    """Two brokers, and the queues of each topic."""

    def __init__(self, cluster: RocketMQ) -> None:
        self.cluster = cluster
        self.address = cluster.brokers[FIRST_BROKER].address
        self.mq_set = {
            topic: [MessageQueue(topic, name, queue_id) for name in cluster.brokers for queue_id in range(queue_nums)]
            for topic, queue_nums in QUEUE_NUMS.items()
        }


@pytest.fixture(scope="module")
def broker(rocketmq_cluster: RocketMQ) -> Cluster:
    for topic, queue_nums in QUEUE_NUMS.items():
        rocketmq_cluster.create_topic(topic, queue_nums)
    return Cluster(rocketmq_cluster)


@pytest.fixture
def channels(broker: Cluster) -> Iterator["Channels"]:
    with ExitStack() as stack:
        yield Channels(broker, stack)


class Channels:
    """The channels of one group at one broker, and the same group with udfs."""

    def __init__(self, broker: Cluster, stack: ExitStack) -> None:
        self.broker = broker
        self.group = next(GROUPS)
        self.manager = ConsumerManager()
        self._stack = stack

    def open(self) -> Channel:
        return self._stack.enter_context(Channel(self.broker.address))

    def beat(self, channel: Channel, client_id: str, topics: dict[str, int], **options: Any) -> bool:
        """A heartbeat, there and here; whether it is a change here."""
        answer = channel.request(HEART_BEAT, body=heartbeat(client_id, self.group, topics, **options))
        assert answer.code == 0
        return self.manager.register_consumer(
            self.group,
            ClientChannelInfo(channel, client_id),
            [SubscriptionData(topic, sub_version=version) for topic, version in topics.items()],
            0,
            without_sub=options.get("without_sub", False),
        )

    def join(self, *client_ids: str) -> list[Channel]:
        channels = [self.open() for _ in client_ids]
        for channel, client_id in zip(channels, client_ids, strict=True):
            self.beat(channel, client_id, {"trades": 1})
        return channels

    def listed(self) -> list[str] | None:
        """GET_CONSUMER_LIST_BY_GROUP as the broker answers it, sorted."""
        with Channel(self.broker.address) as channel:
            answer = channel.request(GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self.group})
        return None if answer.code else sort_client_ids(answer.body["consumerIdList"])

    def listed_here(self) -> list[str] | None:
        client_ids = self.manager.get_consumer_list_by_group(self.group)
        return None if client_ids is None else sort_client_ids(client_ids)


def queue_of(reported: dict[str, Any]) -> MessageQueue:
    return MessageQueue(reported["topic"], reported["brokerName"], reported["queueId"])


def assignment(
    channel: Channel, topic: str, group: str, client_id: str, strategy: str, message_model: str = "CLUSTERING"
) -> list[MessageQueue] | None:
    """QUERY_ASSIGNMENT as the broker answers it; None where it says that the client should keep what it has."""
    body = {
        "topic": topic,
        "consumerGroup": group,
        "clientId": client_id,
        "strategyName": strategy,
        "messageModel": message_model,
    }
    reported = channel.request(QUERY_ASSIGNMENT, body=body).body.get("messageQueueAssignments")
    return None if reported is None else sorted(queue_of(one["messageQueue"]) for one in reported)


def test_every_share_of_every_group_is_what_the_broker_assigns(broker: Cluster) -> None:
    """Random groups, twins in most of them: each ClientId, topic and strategy, by the broker's own list."""
    random = Random(20260719)
    seen: Counter[str] = Counter()
    for _ in range(12):
        client_ids = random.choices(CLIENTS, k=random.randint(1, 9))
        with ExitStack() as stack:
            channels = Channels(broker, stack)
            opened = channels.join(*client_ids)
            cid_all = channels.listed()
            assert cid_all == sort_client_ids(client_ids)
            for topic, mq_set in broker.mq_set.items():
                for strategy in ("AVG", "AVG_BY_CIRCLE"):
                    for client_id in (*sorted(set(client_ids)), "nobody"):
                        expected = allocate(strategy, channels.group, client_id, sorted(mq_set), cid_all)
                        taken = assignment(opened[0], topic, channels.group, client_id, strategy)
                        assert taken == sorted(expected), (client_ids, topic, strategy, client_id)
                        seen[f"{strategy} {'twins' if cid_all.count(client_id) > 1 else 'alone'}"] += 1
    assert sum(seen.values()) >= 200, seen
    assert min(seen["AVG twins"], seen["AVG_BY_CIRCLE twins"], seen["AVG alone"]) >= 30, seen


def test_what_starves_under_twins_is_assigned_to_nobody(broker: Cluster, channels: Channels) -> None:
    first, *_ = channels.join("A", "A", "B")
    taken: set[MessageQueue] = set()
    for client_id in ("A", "B"):
        taken.update(assignment(first, "trades", channels.group, client_id, "AVG") or [])
    in_order = sorted(broker.mq_set["trades"])
    assert [mq for mq in in_order if mq not in taken] == in_order[6:11]


def test_broadcasting_is_assigned_everything_and_an_unknown_topic_or_strategy_nothing(
    broker: Cluster, channels: Channels
) -> None:
    (channel,) = channels.join("A")
    group, mq_set = channels.group, broker.mq_set["trades"]
    everything = assignment(channel, "trades", group, "A", "AVG", "BROADCASTING")
    assert everything == rebalance_by_topic("BROADCASTING", "AVG", group, "A", "trades", mq_set, None)
    assert assignment(channel, "no_such_topic", group, "A", "AVG") is None
    assert assignment(channel, "trades", group, "A", "CONSISTENT_HASH") is None
    assert assignment(channel, "trades", "no_such_group", "A", "AVG") is None


def test_a_group_is_reported_of_changes_and_of_nothing_else(channels: Channels) -> None:
    first, second = channels.join("A", "B")
    changed = [(NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": channels.group})]
    assert first.read_notified()
    second.read_notified()
    for topics, is_change in [
        ({"trades": 1}, False),
        ({"trades": 2}, False),
        ({"trades": 2, "quotes": 1}, True),
        ({"trades": 2, "quotes": 1}, False),
        ({"quotes": 1}, True),
        ({"quotes": 0}, False),
    ]:
        assert channels.beat(second, "B", topics) is is_change, topics
        for channel in (first, second):
            reported = [(code, {"consumerGroup": ext["consumerGroup"]}) for code, ext in channel.read_notified()]
            assert reported == (changed if is_change else []), topics


def test_a_heartbeat_without_subscriptions_changes_nothing(channels: Channels) -> None:
    first, second = channels.join("A", "B")
    first.read_notified()
    assert not channels.beat(second, "B", {}, without_sub=True, fingerprint=7)
    assert first.read_notified() == []
    assert not channels.beat(second, "B", {"trades": 1})
    assert first.read_notified() == []
    assert channels.beat(second, "B", {})
    assert first.read_notified()


def test_another_client_id_on_a_channel_replaces_it_and_nobody_is_reported(channels: Channels) -> None:
    first, second = channels.join("A", "B")
    first.read_notified()
    assert not channels.beat(second, "C", {"trades": 1})
    assert first.read_notified() == []
    assert channels.listed() == channels.listed_here() == ["A", "C"]


def test_who_leaves_and_whose_channel_closes_is_listed_no_more(channels: Channels) -> None:
    first, second, third = channels.join("A", "A", "B")
    first.read_notified()
    third.request(UNREGISTER_CLIENT, {"clientID": "B", "consumerGroup": channels.group})
    channels.manager.unregister_consumer(channels.group, third)
    assert channels.listed() == channels.listed_here() == ["A", "A"]
    assert first.read_notified()
    second.close()
    channels.manager.do_channel_close(second)
    wait_for("the closed channel is gone", lambda: channels.listed() == ["A"])
    assert channels.listed_here() == ["A"]
    wait_for("who is left is told", first.read_notified)  # the broker lists it no more before it says so
    first.request(UNREGISTER_CLIENT, {"clientID": "A", "consumerGroup": channels.group})
    channels.manager.unregister_consumer(channels.group, first)
    assert channels.listed() is channels.listed_here() is None


def test_locks_are_granted_as_computed(channels: Channels) -> None:
    """Two clients, one of them twice, ask for and give back queues of one broker."""
    random, locks = Random(20260719), RebalanceLockManager()
    mqs = [mq for mq in channels.broker.mq_set["trades"] if mq.broker_name == FIRST_BROKER]
    clients = list(zip(channels.join("A", "A", "B"), "AAB", strict=True))
    seen: Counter[str] = Counter()
    for _ in range(200):
        channel, client_id = random.choice(clients)
        asked = random.sample(mqs, random.randint(1, 4))
        body = {
            "consumerGroup": channels.group,
            "clientId": client_id,
            "mqSet": [{"topic": mq.topic, "brokerName": mq.broker_name, "queueId": mq.queue_id} for mq in asked],
        }
        if random.random() < 0.4:
            assert channel.request(UNLOCK_BATCH_MQ, body=body).code == 0
            locks.unlock_batch(channels.group, asked, client_id)
            continue
        granted = {queue_of(reported) for reported in channel.request(LOCK_BATCH_MQ, body=body).body["lockOKMQSet"]}
        assert granted == locks.try_lock_batch(channels.group, asked, client_id, 0)
        seen["granted"] += len(granted)
        seen["refused"] += len(asked) - len(granted)
    assert min(seen["granted"], seen["refused"]) > 50, seen
