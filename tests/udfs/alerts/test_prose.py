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
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 UTC: "
        "broker-a:6-7 and broker-b:0. Why: several clients carry ClientId 172.17.0.2@7, and each takes the first "
        "one's share. 1200 messages waited there when they were last seen.",
        "End the duplicate ClientId 172.17.0.2@7: give each process its own instanceName.",
    ),
    "member_not_subscribed": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 UTC: "
        "broker-a:6-7 and broker-b:0. Why: 172.17.0.2@7 counts as a member and is given them, but does not subscribe "
        "the topic. 1200 messages waited there when they were last seen.",
        "Every member of a group must subscribe the same topics: add the subscription to 172.17.0.2@7, or give it a "
        "group of its own.",
    ),
    "consume_disabled": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 "
        "UTC: broker-a:6-7 and broker-b:0. Why: the broker refuses the group's pulls, its consumeEnable is false."
        " 1200 messages waited there when they were last seen.",
        "Enable it again if nobody meant it: "
        "mqadmin updateSubGroup -c DefaultCluster -g order-service -s true -m true -d true.",
    ),
    "mixed_strategy": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 "
        "UTC: broker-a:6-7 and broker-b:0. Why: the members do not share out by one strategy, and none takes "
        "these. 1200 messages waited there when they were last seen.",
        "Give all members of order-service one AllocateMessageQueueStrategy and one SDK, then restart those that "
        "differ.",
    ),
    "strategy_gap": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 "
        "UTC: broker-a:6-7 and broker-b:0. Why: the group's allocation strategy gives them to no member. 1200 "
        "messages waited there when they were last seen.",
        "Look at the strategy's own options: every broker room needs a consumer (consumeridcs), every queue a "
        "place in a configured list.",
    ),
    "write_only_queue": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 "
        "UTC: broker-a:6-7 and broker-b:0. Why: producers write them, but the route gives consumers no access. "
        "1200 messages waited there when they were last seen.",
        "Let consumers have them: mqadmin updateTopic -t orders with as many readQueueNums (-r) as writeQueueNums"
        " (-w) and permission 6 (-p 6).",
    ),
    "split_view": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 "
        "UTC: broker-a:6-7 and broker-b:0. Why: the brokers list different members, and 172.17.0.2@7 at "
        "10.20.0.11:40112 works from another list. 1200 messages waited there when they were last seen.",
        "Check the network between 172.17.0.2@7 on 10.20.0.11 and the brokers that do not list it, or restart it.",
    ),
    "stale_route": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 "
        "UTC: broker-a:6-7 and broker-b:0. Why: 172.17.0.2@7 at 10.20.0.11:40112 works from the topic's route as "
        "it was before it changed. 1200 messages waited there when they were last seen.",
        "Restart 172.17.0.2@7 on 10.20.0.11: it still works from the route as it was before it changed.",
    ),
    "order_lock": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 "
        "UTC: broker-a:6-7 and broker-b:0. Why: 172.17.0.2@7 at 10.20.0.11:40112 consumes in order and has not "
        "won the locks of these queues. 1200 messages waited there when they were last seen.",
        "If the broker has no master, bring it back: locks are granted there only. Otherwise find who held these "
        "queues before 172.17.0.2@7 and restart it; a lock is free 60 s after its holder is gone.",
    ),
    "frozen_client": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 UTC: "
        "broker-a:6-7 and broker-b:0. Why: 172.17.0.2@7 at 10.20.0.11:40112 is still listed, but neither heartbeats "
        "nor pulls. 1200 messages waited there when they were last seen.",
        "Look at 172.17.0.2@7 on 10.20.0.11 (full GC, swapped out, suspended, cut off?) and restart it.",
    ),
    "pull_stopped": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 UTC: "
        "broker-a:6-7 and broker-b:0. Why: 172.17.0.2@7 at 10.20.0.11:40112 sends heartbeats, but has stopped pulling "
        "them. 1200 messages waited there when they were last seen.",
        "resume() 172.17.0.2@7 on 10.20.0.11 if it was suspended; else take its jstack and restart it: its rebalance "
        "takes the queues anew.",
    ),
    "consume_stopped": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 UTC: "
        "broker-a:6-7 and broker-b:0. Why: the committed offset stands still: 172.17.0.2@7 at 10.20.0.11:40112 holds "
        "them and consumes nothing (its listener hangs, it is suspended, or its cache is full). 1200 messages waited "
        "there when they were last seen.",
        "Take a jstack of 172.17.0.2@7 on 10.20.0.11 (mqadmin consumerStatus -g order-service -i 172.17.0.2@7 -s): end "
        "what its listener waits for, or resume() it if it was suspended; then restart it.",
    ),
    "group_offline": (
        "Nobody consumes 3 queues of topic orders in group order-service (cluster DefaultCluster) since 03:12:05 UTC: "
        "broker-a:6-7 and broker-b:0. Why: the group has no member left. 1200 messages waited there when they were "
        "last seen.",
        "Start a consumer of group order-service.",
    ),
}


def starved(cause: str, **reported: Any) -> tuple[str, str]:
    queues = ["broker-a:6", "broker-a:7", "broker-b:0"]
    facts = {"client_id": "172.17.0.2@7", "client_addr": "10.20.0.11:40112", "backlog": 1200, **reported}
    return describe_starved_queue("DefaultCluster", "order-service", "orders", cause, queues, AT, **facts)


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_its_words(cause: str) -> None:
    assert starved(cause) == GOLDEN[cause]


@pytest.mark.parametrize("backlog", [None, 0])
def test_no_backlog_is_reported_when_none_was_seen(backlog: int | None) -> None:
    assert "waited" not in starved("group_offline", backlog=backlog)[0]


def test_one_waiting_message_is_reported_in_the_singular() -> None:
    assert "1 message waited there" in starved("group_offline", backlog=1)[0]


def test_an_unknown_address_is_its_host() -> None:
    assert starved("frozen_client", client_addr=None)[1] == (
        "Look at 172.17.0.2@7 on its host (full GC, swapped out, suspended, cut off?) and restart it."
    )


TWIN_ADVICE = (
    'Give each process its own ClientId: consumer.setInstanceName("...") (or -Drocketmq.client.name=...) {place}, then '
    "restart it. Java clients from 4.9.0 do so by themselves unless instanceName is set."
)


def duplicate(views: dict[str, list[str]], starved: dict[str, list[str]]) -> tuple[str, str]:
    return describe_duplicate_client_id("DefaultCluster", "order-service", "172.17.0.2@7", views, starved, AT)


def test_twins_on_two_hosts_are_reported_with_both() -> None:
    addrs = ["10.20.0.11:49802", "10.20.0.12:51320"]
    assert duplicate({"broker-b": addrs, "broker-a": addrs}, {"orders": ["broker-a:6", "broker-a:7"]}) == (
        "2 clients carry ClientId 172.17.0.2@7 in group order-service (cluster DefaultCluster): 10.20.0.11:49802 and "
        "10.20.0.12:51320, both alive in the view of broker-a and broker-b since 03:12:05 UTC. Each takes the first "
        "one's share, so nobody consumes broker-a:6-7 of topic orders.",
        TWIN_ADVICE.format(place="on 10.20.0.11 or 10.20.0.12"),
    )


def test_three_on_one_host_that_starve_nothing_are_reported_as_a_double_consumption() -> None:
    assert duplicate({"broker-a": ["h:1", "h:2", "h:3"]}, {}) == (
        "3 clients carry ClientId 172.17.0.2@7 in group order-service (cluster DefaultCluster): h:1, h:2 and h:3, all "
        "alive in the view of broker-a since 03:12:05 UTC. No queue starves by it now, but what they take is consumed "
        "twice.",
        TWIN_ADVICE.format(place="in one of the processes on h"),
    )


def test_every_starved_topic_is_reported() -> None:
    summary, _ = duplicate({"broker-a": ["h:1", "i:2"]}, {"payments": ["broker-a:1"], "orders": ["broker-a:0"]})
    assert summary.endswith("nobody consumes broker-a:0 of topic orders and broker-a:1 of topic payments.")
