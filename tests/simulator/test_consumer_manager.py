"""The broker's lists: changes by heartbeats, notifications, and two processes of one group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.simulator.consumer_manager import ClientChannelInfo, ConsumerManager, SubscriptionData

NOW = 1_700_000_000_000
Beat = tuple[int, str, list[SubscriptionData]]

subscription_lists = st.lists(
    st.builds(
        SubscriptionData,
        st.sampled_from(["orders", "payments", "%RETRY%g"]),
        st.sampled_from(["*", "a || b"]),
        st.integers(0, 3),
    ),
    max_size=4,
    unique_by=lambda subscription: subscription.topic,
)
beats = st.tuples(st.integers(0, 4), st.sampled_from("AB"), subscription_lists)


class Lists(ConsumerManager):
    """The lists of one broker; most tests have the group "g" alone."""

    def beat(
        self, address: int, client_id: str, topics: str | list[SubscriptionData] = "orders", at_ms: int = 0, **to: bool
    ) -> bool:
        subscriptions = [SubscriptionData(name) for name in topics.split()] if isinstance(topics, str) else topics
        return self.register_consumer("g", ClientChannelInfo(address, client_id), subscriptions, NOW + at_ms, **to)

    def topics(self) -> dict[str, str]:
        info = self.consumer_table.get("g")
        return {each.topic: each.sub_string for each in info.subscriptions.values()} if info else {}


@pytest.fixture
def lists() -> Lists:
    return Lists()


def test_the_first_heartbeat_of_a_channel_is_a_change_and_the_next_is_not(lists: Lists) -> None:
    assert [lists.beat(1, "A", at_ms=at_ms) for at_ms in (0, 30_000)] == [True, False]
    assert lists.consumer_table["g"].channels[1].last_update_ms == NOW + 30_000


def test_twins_are_listed_side_by_side(lists: Lists) -> None:
    for address, client_id in enumerate("AAB"):
        lists.beat(address, client_id)
    assert lists.get_consumer_list_by_group("g") == ["A", "A", "B"]


def test_another_client_id_on_a_known_channel_replaces_it_and_is_no_change(lists: Lists) -> None:
    assert [lists.beat(*beat) for beat in ((1, "A"), (2, "B"), (1, "C"))] == [True, True, False]
    assert lists.get_consumer_list_by_group("g") == ["C", "B"]


def test_a_new_topic_and_a_lost_topic_are_changes(lists: Lists) -> None:
    lists.beat(1, "A")
    changes = [lists.beat(1, "A", topics) for topics in ("orders payments", "payments orders", "payments")]
    assert changes == [True, False, True]
    assert set(lists.topics()) == {"payments"}


def test_a_newer_sub_version_replaces_and_is_no_change_and_an_older_one_is_ignored(lists: Lists) -> None:
    lists.beat(1, "A", [SubscriptionData("orders", "a", 5)])
    for sub_string, version in (("b", 6), ("c", 5), ("c", 6)):
        assert not lists.beat(1, "A", [SubscriptionData("orders", sub_string, version)])
        assert lists.topics() == {"orders": "b"}


def test_two_processes_with_different_topics_change_the_group_at_every_heartbeat(lists: Lists) -> None:
    for _ in range(4):
        assert lists.beat(1, "A", "orders")
        assert lists.beat(2, "B", "payments")
        assert set(lists.topics()) == {"payments"}


@given(st.lists(beats, max_size=12), beats)
def test_the_lists_are_those_of_the_last_heartbeats(played: list[Beat], last: Beat) -> None:
    lists = Lists()
    for beat in played:
        lists.beat(*beat)
        assert set(lists.topics()) == {subscription.topic for subscription in beat[2]}
    before, was_known = lists.topics(), last[0] in {address for address, *_ in played}
    assert lists.beat(*last, without_sub=True) != was_known
    assert lists.topics() == before, "a heartbeat without subscriptions changes none"
    lists.beat(*last)
    assert not lists.beat(*last), "a heartbeat twice is a change once"
    client_ids = {address: client_id for address, client_id, _ in [*played, last]}
    assert lists.get_consumer_list_by_group("g") == list(client_ids.values())


def test_a_channel_expires_after_more_than_120_seconds_of_silence(lists: Lists) -> None:
    lists.register_consumer("h", ClientChannelInfo(1, "A"), [], NOW)
    lists.beat(1, "A")
    lists.beat(2, "B", at_ms=60_000)
    assert lists.scan_not_active_channel(NOW + 120_000) == []
    assert sorted(lists.scan_not_active_channel(NOW + 120_001)) == [("g", 1), ("h", 1)]
    assert lists.get_consumer_list_by_group("g") == ["B"]
    assert lists.get_consumer_list_by_group("h") is None


def test_a_change_notifies_every_channel_the_new_one_too_and_none_of_a_broadcasting_group(lists: Lists) -> None:
    lists.beat(1, "A")
    lists.beat(2, "B")
    assert lists.channels_to_notify("g") == [1, 2]
    reported = ("CONSUME_ACTIVELY", "BROADCASTING", "CONSUME_FROM_TIMESTAMP")
    types = dict(zip(("consume_type", "message_model", "consume_from_where"), reported, strict=True))
    lists.register_consumer("g", ClientChannelInfo(2, "B"), [], NOW, **types)
    info = lists.consumer_table["g"]
    assert (info.consume_type, info.message_model, info.consume_from_where) == reported
    assert lists.channels_to_notify("g") == []


def test_a_closed_channel_leaves_every_group_it_was_in(lists: Lists) -> None:
    for group, address, client_id in (("g", 1, "A"), ("g", 2, "B"), ("h", 1, "A"), ("i", 2, "B")):
        lists.register_consumer(group, ClientChannelInfo(address, client_id), [], NOW)
    assert lists.do_channel_close(1) == ["g", "h"]
    assert lists.get_consumer_list_by_group("g") == ["B"]
    assert lists.channels_to_notify("g") == [2]
    assert lists.do_channel_close(1) == []


def test_a_group_without_channels_is_forgotten_with_its_subscriptions_and_answers_an_error(lists: Lists) -> None:
    lists.beat(1, "A")
    assert lists.unregister_consumer("g", 2) is lists.unregister_consumer("unknown", 1) is None
    left = lists.unregister_consumer("g", 1)
    assert left is not None
    assert left.client_id == "A"
    assert lists.get_consumer_list_by_group("g") is None
    assert lists.channels_to_notify("g") == []
    lists.beat(1, "A", "", without_sub=True)
    assert lists.topics() == {}
