"""The modelled consumers: queues, locks, pulls, commits, and the heartbeats that report them."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from schemas.events import HEARTBEATS, PULLS
from streaming.simulator.scenario import load_scenario
from tests.simulator.modelled import MINUTE, START, Events, healthy, heartbeats_of, mq_of, of, pulled, run, seconds
from udfs.rocketmq.model import MessageQueue

pytestmark = pytest.mark.replay


def consumers(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The healthy group's three members with changes."""
    members = [consumer.model_dump() for consumer in load_scenario("healthy").groups[0].consumers]
    return [member | change for member, change in zip(members, changes, strict=False)]


def pullers(events: Events, from_seconds: float, to_seconds: float) -> Counter[str]:
    """How many queues each host pulled in an interval."""
    return Counter(host for hosts in pulled(events, from_seconds, to_seconds).values() for host in hosts)


def test_every_member_of_a_broadcasting_group_takes_every_queue() -> None:
    simulation, events = run(healthy(group_message_model="BROADCASTING"), duration_ms=120_000)
    assert pullers(events, 60, 120) == {"10.20.0.11": 16, "10.20.0.12": 16, "10.20.0.13": 16}
    assert all("commit_offset" not in pull for pull in of(events, PULLS))
    assert list(simulation.truth) == list(simulation.truth.doubled) == []


def test_a_broadcasting_member_goes_on_from_its_own_file_after_a_restart() -> None:
    restart = [
        {"at": 100, "action": "stop", "consumer": "order-1"},
        {"at": 160, "action": "start", "consumer": "order-1"},
    ]
    members = consumers({"client_id": "10.20.0.11@DEFAULT"}, {}, {})
    _, events = run(healthy(group_message_model="BROADCASTING", group_consumers=members, happenings=restart))
    own = [pull for pull in of(events, PULLS) if pull["client_id"] == "10.20.0.11@DEFAULT"]
    for mq in {mq_of(pull) for pull in own}:
        before = [pull["max_offset"] for pull in own if mq_of(pull) == mq and seconds(pull) < 100]
        after = [pull["pull_offset"] for pull in own if mq_of(pull) == mq and seconds(pull) > 160]
        assert 0 <= before[-1] + 1 - after[0] <= 20  # it has what came while it was away, and little twice


def test_pop_members_are_seen_at_any_queue_and_say_that_brokers_decide() -> None:
    simulation, events = run(healthy(group_client_rebalance=False))
    seen = pulled(events, 0, 600)
    assert len(seen) == 16
    assert any(len(hosts) == 3 for hosts in seen.values())
    for beat in of(events, HEARTBEATS):
        for consumer in beat["consumers"]:
            assert (consumer["consume_type"], consumer["client_rebalance"]) == ("CONSUME_POP", False)
            assert "strategy" not in consumer
    assert list(simulation.truth) == []


def test_heartbeat_v2_leaves_out_what_did_not_change() -> None:
    _, events = run("heartbeat_v2")
    beats = [beat for beat in of(events, HEARTBEATS) if beat["consumers"] and not beat.get("leaving")]
    short = [beat for beat in beats if beat.get("without_sub")]
    assert 0 < len(short) < len(beats)
    assert all(consumer["subscriptions"] == [] for beat in short for consumer in beat["consumers"])
    topics = {
        one["topic"]
        for beat in beats
        if not beat.get("without_sub")
        for consumer in beat["consumers"]
        for one in consumer["subscriptions"]
    }
    assert topics == {"orders", "%RETRY%order-service"}
    by_channel: dict[str, list[bool]] = {}
    for beat in beats:
        by_channel.setdefault(beat["client_addr"], []).append(beat.get("without_sub", False))
    assert not any(is_short[0] for is_short in by_channel.values())


def test_a_rebalance_that_changed_something_gives_the_subscription_a_new_version() -> None:
    _, events = run("rolling_restart")
    versions = [
        consumer["subscriptions"][0]["sub_version"]
        for beat in heartbeats_of(events, "10.20.0.13")
        for consumer in beat["consumers"]
        if consumer["subscriptions"]
    ]
    assert len(set(versions)) > 4
    assert all(version >= START for version in versions)


def test_two_groups_in_one_process_share_channel_and_heartbeat() -> None:
    _, events = run("shared_process")
    beats = heartbeats_of(events, "10.20.0.11")
    assert len({(beat["broker_name"], beat["client_addr"]) for beat in beats}) == 2
    for beat in beats:
        assert [consumer["consumer_group"] for consumer in beat["consumers"]] == ["order-service", "payment-service"]
    addrs = {pull["client_addr"] for pull in of(events, PULLS) if pull["client_addr"].startswith("10.20.0.11:")}
    assert addrs == {beat["client_addr"] for beat in beats}


def test_a_refused_group_asks_again_every_3_seconds() -> None:
    _, events = run("consume_disabled", 1)
    refused = [pull for pull in of(events, PULLS) if pull["pull_status"] == "NO_PERMISSION"]
    by_queue: dict[MessageQueue, list[int]] = {}
    for pull in refused:
        by_queue.setdefault(mq_of(pull), []).append(pull["event_time_ms"])
    assert len(by_queue) == 8
    for times in by_queue.values():
        assert all(3_000 <= later - earlier <= 3_010 for earlier, later in pairwise(times))
        assert 380_000 <= times[-1] - times[0] <= 390_000


def test_a_cut_client_is_forgotten_by_one_broker_only() -> None:
    simulation, events = run("split_view")
    (expected,) = (one for one in simulation.expected if one.kind == "split_view")
    assert expected.end_ms is not None
    from_seconds = (expected.start_ms - START) / 1000
    during = [beat for beat in heartbeats_of(events, "10.20.0.12") if from_seconds + 5 < seconds(beat) < 540]
    assert {beat["broker_name"] for beat in during} == {"broker-a"}
    own = {mq.broker_name for mq, hosts in pulled(events, from_seconds, 540).items() if "10.20.0.12" in hosts}
    assert own == {"broker-a"}


def test_an_orderly_group_is_never_doubled_when_its_members_disagree() -> None:
    """AVG and AVG_BY_CIRCLE in one group: with locks the first holder of a queue consumes it."""
    members = consumers({"strategy": "AVG"}, {"strategy": "AVG_BY_CIRCLE"}, {"strategy": "AVG_BY_CIRCLE"})
    plain, _ = run(healthy(group_consumers=members))
    locked, _ = run(healthy(group_consumers=members, group_consume_orderly=True))
    assert any(one.cause == "mixed_strategy" for one in plain.truth.doubled)
    assert not any(one.cause == "mixed_strategy" for one in locked.truth.doubled)


def test_twins_of_an_orderly_group_hold_one_lock_and_are_doubled_all_the_same() -> None:
    members = consumers({"client_id": "172.17.0.2@7"}, {"client_id": "172.17.0.2@7"}, {"client_id": "172.17.0.3@7"})
    simulation, _ = run(healthy(group_consumers=members, group_consume_orderly=True))
    doubled = simulation.truth.doubled.at(START + 5 * MINUTE)
    assert {one.cause for one in doubled} == {"duplicate_client_id"}
    assert len(doubled) == 6


def test_a_crash_of_the_process_is_seen_at_once_and_of_the_host_after_expiry() -> None:
    lasted = {}
    for action in ("crash", "kill"):
        happening = {"at": 100, "action": action, "consumer": "order-2"}
        simulation, events = run(healthy(happenings=[happening]))
        of_consumer = [one for one in simulation.truth if one.start_ms >= START + 100_000]
        lasted[action] = max(simulation.truth.lasted_ms(one) for one in of_consumer)
        leaving = [beat for beat in heartbeats_of(events, "10.20.0.12") if beat.get("leaving")]
        assert len(leaving) == (2 if action == "crash" else 0)
    assert lasted["crash"] < 2_000
    assert 80_000 < lasted["kill"] < 140_000


def test_a_member_keeps_its_queues_when_no_broker_answers() -> None:
    """rebalanceByTopic skips the round; nothing is dropped, and pulls go on where the network is back."""
    happening = {"at": 100, "until": 160, "action": "cut_network", "consumer": "order-2"}
    simulation, events = run(healthy(happenings=[happening]))
    before, after = pulled(events, 60, 100), pulled(events, 165, 190)
    assert {mq for mq, hosts in before.items() if "10.20.0.12" in hosts} == {
        mq for mq, hosts in after.items() if "10.20.0.12" in hosts
    }
    assert "10.20.0.12" not in pullers(events, 100.01, 160)
    assert {one.cause for one in simulation.truth.at(START + 130_000)} == {"split_view"}
