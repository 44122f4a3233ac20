"""The words of a page, one golden pair a cause."""

from typing import Any

import pytest

from udfs.alerts.prose import (
    clock,
    count,
    describe_duplicate_client_id,
    describe_starved_queue,
    host_of,
    join_words,
    name_queues,
)
from udfs.groups.diagnosis import CAUSES

AT = 1_789_009_925_000


@pytest.mark.parametrize(
    ("time_ms", "reported"), [(0, "00:00:00 UTC"), (AT, "03:12:05 UTC"), (86_399_999, "23:59:59 UTC")]
)
def test_a_time_is_reported_in_utc_by_the_second(time_ms: int, reported: str) -> None:
    assert clock(time_ms) == reported


@pytest.mark.parametrize(
    ("queues", "reported"),
    [
        (["broker-a:3"], "broker-a:3"),
        (["broker-a:3", "broker-a:4", "broker-a:5"], "broker-a:3-5"),
        (["broker-a:10", "broker-a:9", "broker-a:0"], "broker-a:0,9-10"),
        (["broker-b:1", "broker-a:0", "broker-a:2"], "broker-a:0,2 and broker-b:1"),
        (["a:0", "b:0", "c:0", "c:1"], "a:0, b:0 and c:0-1"),
    ],
)
def test_queues_are_reported_as_runs_a_broker(queues: list[str], reported: str) -> None:
    assert name_queues(queues) == reported


def test_small_words() -> None:
    assert [count(1, "queue"), count(3, "queue"), count(0, "queue")] == ["1 queue", "3 queues", "0 queues"]
    assert [join_words(["a"]), join_words(["a", "b"]), join_words(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert [host_of("10.0.0.1:40112"), host_of("[::1]:99"), host_of("host")] == ["10.0.0.1", "[::1]", "host"]


GOLDEN = {
    "duplicate_client_id": (
        "several clients share ClientId 172.17.0.2@7, and each takes the share of the first",
        "Give each process with ClientId 172.17.0.2@7 its own instanceName, then restart it.",
    ),
    "member_not_subscribed": (
        "172.17.0.2@7 counts as a member and gets these queues, but does not subscribe to the topic",
        "All members of a group must subscribe to the same topics: add the subscription to 172.17.0.2@7, or move it "
        "to another group.",
    ),
    "consume_disabled": (
        "the broker refuses the group's pulls because consumeEnable is false",
        "If this is not intended, enable it: mqadmin updateSubGroup -c DefaultCluster -g order-service -s true -m "
        "true -d true",
    ),
    "mixed_strategy": (
        "the members use different allocation strategies, and none takes these queues",
        "Give all members of order-service the same AllocateMessageQueueStrategy and SDK, then restart those that "
        "differ.",
    ),
    "strategy_gap": (
        "the group's allocation strategy gives them to no member",
        "Check the strategy's options: every broker room needs a consumer (consumeridcs), and every queue must be in "
        "a configured list.",
    ),
    "write_only_queue": (
        "producers can write to them, but the route does not let consumers read them",
        "Make them readable: mqadmin updateTopic -t orders with equal readQueueNums (-r) and writeQueueNums (-w) and "
        "permission 6 (-p 6).",
    ),
    "split_view": (
        "the brokers list different members, and 172.17.0.2@7 at 10.20.0.11:40112 uses another list",
        "Check the network between 172.17.0.2@7 on 10.20.0.11 and the brokers that do not list it, or restart the "
        "client.",
    ),
    "stale_route": (
        "172.17.0.2@7 at 10.20.0.11:40112 still uses the topic's old route",
        "Restart 172.17.0.2@7 on 10.20.0.11: it still uses the old route.",
    ),
    "order_lock": (
        "172.17.0.2@7 at 10.20.0.11:40112 consumes in order and does not hold the locks of these queues",
        "If the broker has no master, bring it back: only masters grant locks. Otherwise find the client that held "
        "these queues before 172.17.0.2@7 and restart it; locks expire 60 s after their holder is gone.",
    ),
    "frozen_client": (
        "172.17.0.2@7 at 10.20.0.11:40112 is still listed, but sends no heartbeats and does not pull",
        "Check 172.17.0.2@7 on 10.20.0.11 for a full GC, swapping, suspension or a network fault, then restart it.",
    ),
    "pull_stopped": (
        "172.17.0.2@7 at 10.20.0.11:40112 sends heartbeats, but has stopped pulling",
        "If 172.17.0.2@7 on 10.20.0.11 was suspended, resume() it. Otherwise take a jstack and restart it: its "
        "rebalance takes the queues again.",
    ),
    "consume_stopped": (
        "the committed offset stands still: 172.17.0.2@7 at 10.20.0.11:40112 holds the queues and consumes nothing "
        "(listener hangs, consumer suspended, or cache full)",
        "Take a jstack of 172.17.0.2@7 on 10.20.0.11 (mqadmin consumerStatus -g order-service -i 172.17.0.2@7 -s). "
        "Fix what its listener waits for, or resume() the consumer if it was suspended; then restart it.",
    ),
    "group_offline": (
        "the group has no members",
        "Start a consumer of group order-service.",
    ),
}
"""Cause to its reason and advice."""

SUMMARY = (
    "Group order-service (cluster DefaultCluster) has not consumed 3 queues of topic orders since 03:12:05 UTC: "
    "broker-a:6-7 and broker-b:0. Cause: {why}. Backlog: 1200 messages when last read."
)


def starved(cause: str, **reported: Any) -> tuple[str, str]:
    queues = ["broker-a:6", "broker-a:7", "broker-b:0"]
    facts = {"client_id": "172.17.0.2@7", "client_addr": "10.20.0.11:40112", "backlog": 1200, **reported}
    return describe_starved_queue("DefaultCluster", "order-service", "orders", cause, queues, AT, **facts)


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_its_words(cause: str) -> None:
    why, advice = GOLDEN[cause]
    assert starved(cause) == (SUMMARY.format(why=why), advice)


@pytest.mark.parametrize("backlog", [None, 0])
def test_no_backlog_is_reported_when_none_was_seen(backlog: int | None) -> None:
    assert "Backlog" not in starved("group_offline", backlog=backlog)[0]


def test_one_waiting_message_is_reported_in_the_singular() -> None:
    assert "Backlog: 1 message when" in starved("group_offline", backlog=1)[0]


def test_an_unknown_address_is_its_host() -> None:
    assert starved("frozen_client", client_addr=None)[1] == (
        "Check 172.17.0.2@7 on its host for a full GC, swapping, suspension or a network fault, then restart it."
    )


TWIN_ADVICE = (
    'Give each process its own ClientId: consumer.setInstanceName("...") (or -Drocketmq.client.name=...) {place}, then '
    "restart it. Java clients from 4.9.0 have unique ClientIds unless instanceName is set."
)


def duplicate(views: dict[str, list[str]], starved: dict[str, list[str]]) -> tuple[str, str]:
    return describe_duplicate_client_id("DefaultCluster", "order-service", "172.17.0.2@7", views, starved, AT)


def test_twins_on_two_hosts_are_reported_with_both() -> None:
    addrs = ["10.20.0.11:49802", "10.20.0.12:51320"]
    assert duplicate({"broker-b": addrs, "broker-a": addrs}, {"orders": ["broker-a:6", "broker-a:7"]}) == (
        "2 clients of group order-service (cluster DefaultCluster) have shared ClientId 172.17.0.2@7 since 03:12:05 "
        "UTC: 10.20.0.11:49802 and 10.20.0.12:51320, both alive according to broker-a and broker-b. Each takes the "
        "share of the first, so no client consumes broker-a:6-7 of topic orders.",
        TWIN_ADVICE.format(place="on 10.20.0.11 or 10.20.0.12"),
    )


def test_three_on_one_host_that_starve_nothing_are_reported_as_a_double_consumption() -> None:
    assert duplicate({"broker-a": ["h:1", "h:2", "h:3"]}, {}) == (
        "3 clients of group order-service (cluster DefaultCluster) have shared ClientId 172.17.0.2@7 since 03:12:05 "
        "UTC: h:1, h:2 and h:3, all alive according to broker-a. No queue starves now, but the queues of this share "
        "are consumed more than once.",
        TWIN_ADVICE.format(place="in one of the processes on h"),
    )


def test_every_starved_topic_is_reported() -> None:
    summary, _ = duplicate({"broker-a": ["h:1", "i:2"]}, {"payments": ["broker-a:1"], "orders": ["broker-a:0"]})
    assert summary.endswith("no client consumes broker-a:0 of topic orders and broker-a:1 of topic payments.")
