"""The broker's lists: what is a change, who is told, what two processes of one group do to each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.simulator.consumer_manager import ClientChannelInfo, ConsumerGroupInfo, ConsumerManager, SubscriptionData

NOW = 1_700_000_000_000

topic_names = st.sampled_from(["orders", "payments", "%RETRY%g"])
subscription_lists = st.lists(
    st.builds(SubscriptionData, topic_names, st.sampled_from(["*", "a || b"]), st.integers(0, 3)),
    max_size=4,
    unique_by=lambda subscription: subscription.topic,
)
heartbeats = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("AB"), subscription_lists), max_size=12)


def channel(address: int, client_id: str) -> ClientChannelInfo:
    return ClientChannelInfo(address, client_id)


def group_of(*members: tuple[int, str], topic: str = "orders") -> ConsumerGroupInfo:
    info = ConsumerGroupInfo("g")
    for address, client_id in members:
        info.register_consumer(channel(address, client_id), [SubscriptionData(topic)], NOW)
    return info


def played(beats: list[tuple[int, str, list[SubscriptionData]]]) -> ConsumerGroupInfo:
    info = ConsumerGroupInfo("g")
    for address, client_id, subscriptions in beats:
        info.register_consumer(channel(address, client_id), subscriptions, NOW)
    return info


def test_the_first_heartbeat_of_a_channel_is_a_change_and_the_next_is_not() -> None:
    info, subscriptions = ConsumerGroupInfo("g"), [SubscriptionData("orders")]
    assert info.register_consumer(channel(1, "A"), subscriptions, NOW)
    assert not info.register_consumer(channel(1, "A"), subscriptions, NOW + 30_000)
    assert info.channels[1].last_update_ms == NOW + 30_000


def test_twins_live_side_by_side_and_the_list_names_them_twice() -> None:
    info = group_of((1, "A"), (2, "A"), (3, "B"))
    assert sorted(info.get_all_client_id()) == ["A", "A", "B"]


def test_a_question_by_client_id_reaches_one_twin_whoever_asks() -> None:
    info = group_of((1, "A"), (2, "A"))
    found = info.find_channel("A")
    assert found is not None
    assert found.channel == 1
    assert info.find_channel("B") is None


def test_another_client_id_on_a_known_channel_replaces_it_and_is_no_change() -> None:
    info = group_of((1, "A"), (2, "B"))
    assert not info.register_consumer(channel(1, "C"), [SubscriptionData("orders")], NOW + 5)
    assert sorted(info.get_all_client_id()) == ["B", "C"]
    assert info.channels[1].last_update_ms == NOW + 5


def test_a_new_topic_and_a_lost_topic_are_changes() -> None:
    info = ConsumerGroupInfo("g")
    orders, payments = SubscriptionData("orders"), SubscriptionData("payments")
    assert info.update_subscription([orders])
    assert info.update_subscription([orders, payments])
    assert not info.update_subscription([payments, orders])
    assert info.update_subscription([payments])
    assert set(info.subscriptions) == {"payments"}


def test_a_newer_sub_version_replaces_and_is_no_change_and_an_older_one_is_ignored() -> None:
    info = ConsumerGroupInfo("g")
    info.update_subscription([SubscriptionData("orders", "a", 5)])
    assert not info.update_subscription([SubscriptionData("orders", "b", 6)])
    assert info.subscriptions["orders"].sub_string == "b"
    for stale in (5, 6):
        assert not info.update_subscription([SubscriptionData("orders", "c", stale)])
        assert info.subscriptions["orders"].sub_string == "b"


def test_two_processes_with_different_topics_change_the_group_at_every_heartbeat() -> None:
    info = ConsumerGroupInfo("g")
    for round_ in range(4):
        assert info.register_consumer(channel(1, "A"), [SubscriptionData("orders")], NOW + round_)
        assert set(info.subscriptions) == {"orders"}
        assert info.register_consumer(channel(2, "B"), [SubscriptionData("payments")], NOW + round_)
        assert set(info.subscriptions) == {"payments"}


@given(heartbeats, st.integers(0, 4), st.sampled_from("AB"), subscription_lists)
def test_a_heartbeat_without_subscriptions_changes_no_subscription(
    beats: list[tuple[int, str, list[SubscriptionData]]], address: int, client_id: str, ignored: list[SubscriptionData]
) -> None:
    info = played(beats)
    before, was_known = dict(info.subscriptions), address in info.channels
    changed = info.register_consumer(channel(address, client_id), ignored, NOW + 1, without_sub=True)
    assert info.subscriptions == before
    assert changed != was_known


@given(heartbeats)
def test_the_subscriptions_are_the_last_heartbeats_topics(
    beats: list[tuple[int, str, list[SubscriptionData]]],
) -> None:
    last = {subscription.topic for subscription in beats[-1][2]} if beats else set()
    assert set(played(beats).subscriptions) == last


@given(heartbeats)
def test_the_list_has_one_client_id_a_channel_and_it_is_the_channels_last(
    beats: list[tuple[int, str, list[SubscriptionData]]],
) -> None:
    last = {address: client_id for address, client_id, _ in beats}
    assert sorted(played(beats).get_all_client_id()) == sorted(last.values())


@given(heartbeats, st.integers(0, 4), st.sampled_from("AB"), subscription_lists)
def test_a_heartbeat_twice_is_a_change_once(
    beats: list[tuple[int, str, list[SubscriptionData]]], address: int, client_id: str, reported: list[SubscriptionData]
) -> None:
    info = played(beats)
    info.register_consumer(channel(address, client_id), reported, NOW)
    assert not info.register_consumer(channel(address, client_id), reported, NOW)


def test_a_channel_expires_after_more_than_120_seconds_of_silence() -> None:
    info = group_of((1, "A"), (2, "B"))
    info.register_consumer(channel(2, "B"), [SubscriptionData("orders")], NOW + 60_000)
    assert info.scan_not_active_channel(NOW + 120_000) == []
    assert info.scan_not_active_channel(NOW + 120_001) == [1]
    assert info.get_all_client_id() == ["B"]


def test_every_channel_is_reported_of_a_change_the_new_one_too() -> None:
    info = group_of((1, "A"), (2, "B"))
    assert info.channels_to_notify() == [1, 2]
    info.notify_consumer_ids_changed_enable = False
    assert info.channels_to_notify() == []


@pytest.mark.parametrize(("version", "reported"), [((5, 3, 0), [1]), ((5, 3, 1), []), ((4, 9, 8), [1])])
def test_a_broadcasting_group_is_reported_of_changes_up_to_5_3_0(
    version: tuple[int, int, int], reported: list[int]
) -> None:
    info = group_of((1, "A"))
    info.message_model = "BROADCASTING"
    assert info.channels_to_notify(version) == reported


def manager_of(*members: tuple[str, int, str]) -> ConsumerManager:
    manager = ConsumerManager()
    for group, address, client_id in members:
        manager.register_consumer(group, channel(address, client_id), [SubscriptionData("orders")], NOW)
    return manager


def test_a_closed_channel_leaves_every_group_it_was_in() -> None:
    manager = manager_of(("g", 1, "A"), ("g", 2, "B"), ("h", 1, "A"), ("i", 2, "B"))
    assert manager.do_channel_close(1) == ["g", "h"]
    assert manager.get_consumer_list_by_group("g") == ["B"]
    assert manager.channels_to_notify("g") == [2]
    assert manager.do_channel_close(1) == []


def test_a_group_without_channels_is_forgotten_with_its_subscriptions_and_answers_an_error() -> None:
    manager = manager_of(("g", 1, "A"))
    left = manager.unregister_consumer("g", 1)
    assert left is not None
    assert left.client_id == "A"
    assert manager.get_consumer_list_by_group("g") is None
    assert manager.find_channel("g", "A") is None
    assert manager.channels_to_notify("g") == []
    manager.register_consumer("g", channel(1, "A"), [], NOW, without_sub=True)
    assert manager.consumer_table["g"].subscriptions == {}


def test_who_was_not_listed_cannot_leave() -> None:
    manager = manager_of(("g", 1, "A"))
    assert manager.unregister_consumer("g", 2) is None
    assert manager.unregister_consumer("unknown", 1) is None
    assert manager.get_consumer_list_by_group("g") == ["A"]


def test_a_scan_names_the_group_and_the_channel_of_what_expired() -> None:
    manager = manager_of(("g", 1, "A"), ("h", 1, "A"), ("h", 2, "B"))
    manager.register_consumer("h", channel(2, "B"), [SubscriptionData("orders")], NOW + 10)
    assert manager.scan_not_active_channel(NOW + 120_005) == [("g", 1), ("h", 1)]
    assert manager.get_consumer_list_by_group("g") is None
    found = manager.find_channel("h", "B")
    assert found is not None
    assert found.channel == 2


def test_the_last_heartbeat_says_how_the_group_consumes() -> None:
    manager = manager_of(("g", 1, "A"))
    reported = {
        "consume_type": "CONSUME_ACTIVELY",
        "message_model": "BROADCASTING",
        "consume_from_where": "CONSUME_FROM_TIMESTAMP",
    }
    manager.register_consumer("g", channel(2, "B"), [], NOW, **reported)
    info = manager.consumer_table["g"]
    assert (info.consume_type, info.message_model, info.consume_from_where) == tuple(reported.values())
