"""The words of a page, one golden pair a cause."""

import pytest

from udfs.alerts.prose import (
    Reason,
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


SUMMARY = (
    "Group order-service (cluster DefaultCluster) has not consumed 3 queues of topic orders since 03:12:05 UTC: "
    "broker-a:6-7 and broker-b:0. Cause: {why}. Backlog: 1200 messages when last read."
)


def starved(
    cause: str, *others: Reason, backlog: int | None = 1200, client_addr: str | None = "10.20.0.11:40112"
) -> tuple[str, str]:
    reasons = [Reason(cause, ["broker-a:6", "broker-a:7", "broker-b:0"], "172.17.0.2@7", client_addr), *others]
    text = describe_starved_queue("DefaultCluster", "order-service", "orders", reasons, AT, backlog=backlog)
    return str(text.summary), str(text.advice)


def test_a_page_says_where_since_when_why_and_what_to_do() -> None:
    assert starved("frozen_client") == (
        SUMMARY.format(
            why="172.17.0.2@7 at 10.20.0.11:40112 is still listed, but sends no heartbeats and does not pull"
        ),
        "Check 172.17.0.2@7 on 10.20.0.11 for a full GC, swapping, suspension or a network fault, then restart it.",
    )


def test_queues_with_another_cause_are_named_with_it_and_its_fix() -> None:
    """An orderly group of the field: a listener hangs, and its client cannot give back the lock of a queue it lost."""
    summary, advice = starved("order_lock", Reason("consume_stopped", ["broker-a:0", "broker-a:1"], "10.0.0.5@9"))
    assert "has not consumed 5 queues of topic orders since 03:12:05 UTC: broker-a:0-1,6-7 and broker-b:0." in summary
    assert "does not hold the locks of these queues (broker-a:6-7 and broker-b:0); the committed offset" in summary
    assert "10.0.0.5@9 at an unknown address holds the queues and consumes nothing" in summary
    assert "(broker-a:0-1). Backlog:" in summary
    assert advice.startswith("If the broker has no master, bring it back")
    assert " Take a jstack of 10.0.0.5@9 on its host " in advice


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_its_words(cause: str) -> None:
    summary, advice = starved(cause)
    assert summary.startswith(SUMMARY.partition("{why}")[0])
    assert advice
    assert not set("{}") & set(summary + advice)


@pytest.mark.parametrize(("backlog", "reported"), [(None, 0), (0, 0), (1, 1)])
def test_a_backlog_is_reported_if_one_was_seen(backlog: int | None, reported: int) -> None:
    assert starved("group_offline", backlog=backlog)[0].count("Backlog: 1 message when last read.") == reported


def test_an_unknown_address_is_its_host() -> None:
    assert "Check 172.17.0.2@7 on its host for" in starved("frozen_client", client_addr=None)[1]


TWIN_ADVICE = (
    'Give each process its own ClientId: consumer.setInstanceName("...") (or -Drocketmq.client.name=...) {place}, then '
    "restart it. Java clients from 4.9.0 have unique ClientIds unless instanceName is set."
)


def duplicate(views: dict[str, list[str]], starved: dict[str, list[str]]) -> tuple[str, str]:
    text = describe_duplicate_client_id("DefaultCluster", "order-service", "172.17.0.2@7", views, starved, AT)
    return str(text.summary), str(text.advice)


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
