"""The modelled producers: every attempt follows from the rules of the client's release."""

from collections import Counter
from typing import Any

import pytest

from schemas.events import SEND_LATENCIES
from tests.simulator.modelled import between, healthy, of, run
from tests.support.tiers import in_proof
from udfs.rocketmq.fault import FaultItem, is_available, update_fault_item

pytestmark = pytest.mark.replay

VERSIONS = ("4.9.8", "5.1.4", *in_proof(["4.7.1", "5.1.0", "5.3.3"]))


def producers(*versions: str, **fields: Any) -> list[dict[str, Any]]:
    """A producer a release, four messages a second each."""
    return [
        {
            "client_id": f"10.20.1.{21 + index}@3011#{version}",
            "host": f"10.20.1.{21 + index}",
            "client_version": version,
            "topics": ["orders"],
            "sends_per_second": 4,
            **fields,
        }
        for index, version in enumerate(versions)
    ]


def slow(from_seconds: float, until: float, latency_ms: int, broker_name: str = "broker-b") -> dict[str, Any]:
    return {
        "at": from_seconds,
        "until": until,
        "action": "slow_broker",
        "broker_name": broker_name,
        "latency_ms": latency_ms,
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_no_first_attempt_goes_to_a_broker_that_is_shut_out_while_another_is_not(version: str) -> None:
    """FaultItems computed anew from the attempts that were told, as the stream does it."""
    happenings = [slow(60, 120, 900), slow(100, 180, 3_500, "broker-a"), slow(240, 300, 600)]
    _, events = run(healthy(producers=producers(version), happenings=happenings), duration_ms=400_000)
    items: dict[str, FaultItem] = {}
    shut_out = 0
    for send in of(events, SEND_LATENCIES):
        name, began_ms = send["broker_name"], send["event_time_ms"] - send["latency_ms"]
        other = "broker-a" if name == "broker-b" else "broker-b"
        if not is_available(items.get(name), began_ms, version):
            shut_out += 1
            assert not is_available(items.get(other), began_ms, version)
        items[name] = update_fault_item(
            items.get(name),
            name,
            send["latency_ms"],
            send["isolation"],
            send.get("reachable", True),
            send["event_time_ms"],
            version,
        )
    assert shut_out < 200


def test_a_broker_refusing_for_seconds_is_lost_to_5_1_4_for_ever() -> None:
    _, events = run("evicted_broker", 1)
    counts: Counter[tuple[str, str, str]] = Counter(
        (send["client_id"], send["client_version"], send["broker_name"])
        for send in between(events, SEND_LATENCIES, 180, 600)
    )
    by_version = {
        (version, client_id[:10]): count for (client_id, version, name), count in counts.items() if name == "broker-b"
    }
    assert ("5.1.4", "10.20.1.21") not in by_version
    assert by_version["5.3.3", "10.20.1.22"] > 300
    assert by_version["5.1.4", "10.20.1.23"] > 300  # its detector found the broker reachable again
    refused = [send for send in of(events, SEND_LATENCIES) if send["isolation"]]
    assert {send["reachable"] for send in refused} == {False}
    assert {send["broker_name"] for send in refused} == {"broker-b"}


def test_without_fault_avoidance_a_slow_broker_gets_its_half() -> None:
    _, events = run(healthy(producers=producers("5.3.3", send_latency_enable=False), happenings=[slow(60, 300, 900)]))
    counts = Counter(send["broker_name"] for send in between(events, SEND_LATENCIES, 70, 290))
    assert abs(counts["broker-a"] - counts["broker-b"]) <= 8


def test_a_dead_broker_costs_its_producers_a_timeout_and_then_nothing() -> None:
    lose = {"at": 100, "until": 400, "action": "lose_broker", "broker_name": "broker-b"}
    _, events = run(healthy(producers=producers("4.9.8", "5.3.3"), happenings=[lose]))
    failed = [send for send in between(events, SEND_LATENCIES, 100, 400) if send["isolation"]]
    assert failed
    assert {send["broker_name"] for send in failed} == {"broker-b"}
    assert all(send["latency_ms"] > 2_900 for send in failed)
    assert all("send_status" not in send for send in failed)
    after = between(events, SEND_LATENCIES, 270, 400)  # the NameServer dropped it, and route polls told everybody
    assert {send["broker_name"] for send in after} == {"broker-a"}


def test_a_refused_connection_fails_at_once_and_the_next_try_stores_the_message() -> None:
    crash = {"at": 100, "until": 200, "action": "crash_broker", "broker_name": "broker-b"}
    _, events = run(healthy(producers=producers("5.3.3"), happenings=[crash]))
    sends = of(events, SEND_LATENCIES)
    failed = [index for index, send in enumerate(sends) if send["isolation"]]
    assert failed
    for index in failed:
        assert sends[index]["latency_ms"] < 10
        assert (sends[index + 1]["broker_name"], sends[index + 1].get("send_status")) == ("broker-a", "SEND_OK")


def test_keys_of_an_ordered_topic_stop_with_their_broker_and_move_without_order_configuration() -> None:
    crash = {"at": 100, "until": 300, "action": "crash_broker", "broker_name": "broker-b"}
    stored = {}
    for order_topic in (True, False):
        scenario = healthy(
            producers=producers("5.3.3", sends_by_key=True), happenings=[crash], topic_order_topic=order_topic
        )
        _, events = run(scenario)
        during = between(events, SEND_LATENCIES, 140, 300)
        assert {send["isolation"] for send in during} == {False}
        stored[order_topic] = sum("send_status" in send for send in during) / len(during)
    assert 0.3 < stored[True] < 0.7
    assert stored[False] == 1


def test_a_topic_that_nobody_may_write_gets_no_attempt() -> None:
    close = {"at": 100, "until": 300, "action": "set_perm", "topic": "orders", "perm": 4}
    _, events = run(healthy(producers=producers("5.3.3"), happenings=[close]))
    assert between(events, SEND_LATENCIES, 0, 100)
    assert not [send for send in between(events, SEND_LATENCIES, 135, 299) if "send_status" in send]
    assert between(events, SEND_LATENCIES, 340, 400)
