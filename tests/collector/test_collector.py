"""What the collector concludes from a round, without RocketMQ and without Kafka."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conf.settings import Settings, SettingsError
from schemas.events import HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.collector.reading import CLIENT_INNER_PRODUCER, BrokerReading, Latency, Reading
from streaming.collector.rocketmq_admin import RequestRate, RocketMQAdmin
from streaming.collector.rocketmq_answers import (
    Broker,
    Connection,
    OffsetWrapper,
    RunningInfo,
    parse_clusters,
    parse_offsets,
    parse_producers,
    parse_route,
    parse_running_info,
    parse_strategy,
    parse_version,
)
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.collector.round_events import ROUTE_REPEAT_MS, compute_round
from streaming.collector.round_memory import Memory
from tests.collector.rounds import (
    BROKER_A,
    BROKER_B,
    GROUP,
    NOW,
    ORDERS,
    ROUTE,
    SOLO,
    TOPIC,
    TWIN,
    TWINS,
    connection,
    events_of,
    of,
    process_queue,
    reading,
    round_clock,
    routed,
    running,
    view,
)
from udfs.rocketmq.route import QueueData

# Heartbeats


def with_groups(view: BrokerReading, *names: str) -> BrokerReading:
    return replace(view, group_names=frozenset(names) or None)


@pytest.mark.parametrize(
    ("reason", "then", "deleted"),
    [
        ("no broker has it any more", [("g", "h"), ("h",)], ["gone"]),
        ("one broker still has it", [("g", "h"), ("gone", "h")], None),
        ("one broker may not be asked", [("g", "h"), ()], None),
        ("one broker did not answer", [("g", "h")], None),
    ],
)
def test_a_group_is_deleted_when(reason: str, then: list[tuple[str, ...]], deleted: list[str] | None) -> None:
    brokers = (BROKER_A, BROKER_B)
    first = reading(*(with_groups(view(broker), "g", "gone", "h") for broker in brokers))
    _, memory = compute_round(Memory(), first, NOW)
    views = [with_groups(view(broker), *names) for broker, names in zip(brokers, then, strict=False)]
    second = replace(reading(*views), brokers_asked=first.brokers_asked)
    assert round_clock(second, NOW + 1_000, memory).get("deleted_groups") == deleted, reason
    _, memory = compute_round(memory, second, NOW + 1_000)
    assert any("gone" in names for names in memory.groups.values()) == (deleted is None)


def test_a_broker_that_is_gone_for_good_has_deleted_no_group() -> None:
    first = reading(with_groups(view(BROKER_A), "g"), with_groups(view(BROKER_B), "on_b_only"))
    _, memory = compute_round(Memory(), first, NOW)
    without = reading(with_groups(view(BROKER_A), "g"))
    assert without.brokers_asked == ("broker-a",)
    assert "deleted_groups" not in round_clock(without, NOW + 1_000, memory)


def test_each_channel_of_each_broker_has_a_heartbeat_at_its_true_time() -> None:
    (events,) = events_of(HEARTBEATS, reading(view(BROKER_A, *TWINS), view(BROKER_B, TWINS[0])))
    assert [(h["broker_name"], h["client_addr"], h["event_time_ms"]) for h in events] == [
        ("broker-a", "10.0.0.1:51", NOW - 4_000),
        ("broker-a", "10.0.0.1:52", NOW - 70_000),
        ("broker-b", "10.0.0.1:51", NOW - 4_000),
    ]


def test_a_channel_that_is_only_listed_again_is_not_published_again() -> None:
    twins, beat = reading(view(BROKER_A, *TWINS)), (TWIN, "10.0.0.1:51", NOW + 1_500)
    _, again, moved = events_of(HEARTBEATS, twins, twins, reading(view(BROKER_A, beat, TWINS[1])))
    assert (again, [h["event_time_ms"] for h in moved]) == ([], [NOW + 1_500])


def test_without_code_328_being_listed_is_reported_as_that() -> None:
    silent = reading(replace(view(BROKER_A, SOLO), producers={}, reports_producers=False))
    _, listed, reported = events_of(HEARTBEATS, silent, silent, reading(view(BROKER_A, SOLO)))
    assert [(h["event_time_ms"], h["is_listed_only"]) for h in listed] == [(NOW + 1_000, True)]
    assert ["is_listed_only" in h for h in reported] == [False]


def test_a_channel_no_longer_listed_leaves_with_its_groups() -> None:
    rest = reading(view(BROKER_A, TWINS[1]))
    _, (left,), later = events_of(HEARTBEATS, reading(view(BROKER_A, *TWINS)), rest, rest)
    assert (left["client_addr"], left["leaving"], left["event_time_ms"]) == ("10.0.0.1:51", True, NOW + 1_000)
    assert [consumer["consumer_group"] for consumer in left["consumers"]] == [GROUP]
    assert later == []


def test_a_group_no_longer_listed_leaves_and_the_channel_stays() -> None:
    both = view(BROKER_A, SOLO)
    other = replace(both.groups[0], consumer_group="other_group")
    _, (left, stayed) = events_of(HEARTBEATS, reading(replace(both, groups=(*both.groups, other))), reading(both))
    assert (left.get("leaving"), [c["consumer_group"] for c in left["consumers"]]) == (True, ["other_group"])
    assert (stayed.get("leaving"), [c["consumer_group"] for c in stayed["consumers"]]) == (None, [GROUP])


def test_of_a_broker_that_did_not_answer_nothing_is_concluded() -> None:
    whole = reading(view(BROKER_A, SOLO), view(BROKER_B, SOLO))
    lost = reading(view(BROKER_A, SOLO), brokers_asked=("broker-a", "broker-b"))
    _, at_the_loss, after = events_of(HEARTBEATS, whole, lost, reading(view(BROKER_A, SOLO), view(BROKER_B)))
    assert at_the_loss == []
    assert round_clock(lost, NOW + 1_000)["brokers_answered"] == ["broker-a"]
    assert [(h["broker_name"], h["leaving"]) for h in after] == [("broker-b", True)]


def test_a_producer_shares_its_channel_with_its_consumer() -> None:
    groups = {"pay": (connection("10.0.0.2:41", SOLO[0], NOW - 5_000),), "ship": (connection("10.0.0.9:1", "p", NOW),)}
    (events,) = events_of(HEARTBEATS, reading(view(BROKER_A, SOLO, **groups)))
    said = [(h["client_id"], h["producer_groups"], len(h["consumers"])) for h in events]
    assert said == [(SOLO[0], ("pay",), 1), ("p", ("ship",), 0)]


def test_our_own_and_groupless_clients_are_left_out() -> None:
    ours = view(BROKER_A, SOLO, balancewatch=(connection("10.0.0.3:1", "us", NOW),))
    tool = replace(ours, producers={**ours.producers, CLIENT_INNER_PRODUCER: (connection("10.0.0.4:1", "tool", NOW),)})
    (events,) = events_of(HEARTBEATS, reading(tool, own_client_ids=frozenset(["us"])))
    assert [h["client_id"] for h in events] == [SOLO[0]]


def test_a_member_reports_its_strategy_and_its_own_subscriptions_twins_only_the_strategy() -> None:
    reported = replace(running(), subscriptions=(replace(ORDERS, topic="other"),))
    for channels, topics in ((SOLO,), ["other"]), (TWINS, [TOPIC]):
        listed, member = view(BROKER_A, *channels), {(GROUP, channels[0][0]): (reported,)}
        first, silent = events_of(HEARTBEATS, reading(listed, running=member), reading(listed))
        (consumer,) = first[0]["consumers"]
        assert (consumer["strategy"], [s["topic"] for s in consumer["subscriptions"]]) == ("AVG", topics)
        assert silent == []  # what was reported once still holds


def test_a_member_reports_whether_it_consumes_in_order_until_it_reports_otherwise() -> None:
    rounds = [pulled(replace(running(), consume_orderly=each)) for each in (None, True, None, False)]
    heartbeats = [each for events in events_of(HEARTBEATS, *rounds) for each in events]
    seen = [consumer["consume_orderly"] for heartbeat in heartbeats for consumer in heartbeat["consumers"]]
    assert seen == [None, True, False]


# Pulls


def pulled(info: RunningInfo, *views: BrokerReading, **fields: Any) -> Reading:
    """A round in which SOLO answers."""
    return reading(*(views or (view(BROKER_A, SOLO),)), running={(GROUP, SOLO[0]): (info,)}, **fields)


def test_a_pull_is_published_when_it_is_later_than_the_last_one() -> None:
    queues = running(process_queue(0, NOW - 9_000), process_queue(1, 0), process_queue(2, NOW, is_dropped=True))
    later = running(process_queue(0, NOW + 1_500))
    (pull,), again, moved = events_of(PULLS, pulled(queues), pulled(queues), pulled(later))
    assert (pull["queue_id"], pull["client_addr"], pull["event_time_ms"]) == (0, "10.0.0.2:41", NOW - 9_000)
    assert (pull["pull_offset"], pull["commit_offset"], pull["max_offset"]) == (0, None, None)
    assert (again, [p["event_time_ms"] for p in moved]) == ([], [NOW + 1_500])


def test_a_pull_carries_the_brokers_offsets() -> None:
    offsets = {(GROUP, (TOPIC, "broker-a", 0)): OffsetWrapper(120, 100, 110)}
    info = running(process_queue(0, NOW), process_queue(1, NOW, cached_msg_count=3, cached_msg_max_offset=7))
    (pulls,) = events_of(PULLS, pulled(info, offsets=offsets))
    said = [(p["pull_offset"], p["commit_offset"], p["max_offset"]) for p in pulls]
    assert said == [(110, 100, 120), (8, None, None)]


def test_a_pull_of_twins_names_no_channel_and_the_later_of_both_counts() -> None:
    infos = (running(process_queue(0, NOW - 3_000)), running(process_queue(0, NOW - 1_000)))
    ((pull,),) = events_of(PULLS, reading(view(BROKER_A, *TWINS), running={(GROUP, TWIN): infos}))
    assert (pull["client_addr"], pull["client_id"], pull["event_time_ms"]) == (None, TWIN, NOW - 1_000)


def test_a_pull_names_the_channel_at_the_queues_own_broker() -> None:
    at_b = (SOLO[0], "10.0.0.2:77", NOW)
    info = running(process_queue(0, NOW, broker_name="broker-b"))
    ((pull,),) = events_of(PULLS, pulled(info, view(BROKER_A, SOLO), view(BROKER_B, at_b)))
    assert pull["client_addr"] == "10.0.0.2:77"


def test_a_pull_of_a_group_that_may_not_consume_is_refused_at_that_broker_only() -> None:
    info = running(process_queue(0, NOW), process_queue(0, NOW, broker_name="broker-b"))
    refusing = replace(view(BROKER_A, SOLO), refused=frozenset([GROUP]))
    silent = replace(view(BROKER_A, SOLO), refused=frozenset(["other_group"]))
    for at_a, status in ((refusing, "NO_PERMISSION"), (silent, None)):
        (pulls,) = events_of(PULLS, pulled(info, at_a, view(BROKER_B, SOLO)))
        assert [(pull["broker_name"], pull["pull_status"]) for pull in pulls] == [
            ("broker-a", status),
            ("broker-b", None),
        ]


def test_an_orderly_consumer_does_not_pull_what_it_could_not_lock() -> None:
    queues = (process_queue(0, NOW), process_queue(1, NOW, is_locked=True))
    for consume_orderly, queue_ids in ((True, [1]), (False, [0, 1]), (None, [0, 1])):
        (pulls,) = events_of(PULLS, pulled(replace(running(*queues), consume_orderly=consume_orderly)))
        assert [pull["queue_id"] for pull in pulls] == queue_ids


def test_retry_topics_stay_out_of_pulls() -> None:
    assert events_of(PULLS, pulled(running(process_queue(0, NOW, topic=f"%RETRY%{GROUP}")))) == [[]]


# Routes


def test_a_route_is_said_when_it_changes_and_every_half_minute() -> None:
    events, memory = compute_round(Memory(), routed(), NOW)
    assert len(of(ROUTES, events)) == 1
    assert of(ROUTES, compute_round(memory, routed(), NOW + ROUTE_REPEAT_MS - 1)[0]) == []
    assert len(of(ROUTES, compute_round(memory, routed(), NOW + ROUTE_REPEAT_MS)[0])) == 1
    more = replace(ROUTE, queues=(QueueData("broker-a", 8, 8, 6),))
    (changed,) = of(ROUTES, compute_round(memory, routed(more), NOW + 1)[0])
    assert changed["queues"][0]["read_queue_nums"] == 8


def test_a_static_topic_says_that_its_clients_hold_other_queues() -> None:
    data = {"brokerName": "broker-a", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    mapping = {"broker-a": {"topic": TOPIC, "totalQueues": 8, "bname": "broker-a", "epoch": 1, "currIdMap": {"0": 0}}}
    for found, expected in (({"topicQueueMappingByBroker": mapping}, True), ({"topicQueueMappingByBroker": {}}, None)):
        route = parse_route(TOPIC, {"queueDatas": [data], **found})
        ((said,),) = events_of(ROUTES, routed(route))
        assert said.get("has_queue_mapping") == expected


def test_a_deleted_topic_is_published_once_without_queues() -> None:
    _, deleted, later = events_of(ROUTES, routed(), routed(None), routed(None))
    assert ([(r["topic"], r["queues"]) for r in deleted], later) == ([(TOPIC, [])], [])


@pytest.mark.parametrize(
    "fields", [{"registered": frozenset()}, {"registered": None, "topics": None}, {"topics": frozenset([TOPIC])}]
)
def test_a_topic_lost_with_its_brokers_or_not_read_is_not_deleted(fields: dict[str, Any]) -> None:
    assert events_of(ROUTES, routed(), routed(None, **fields))[1] == []


# Probes and the clock


def test_a_failed_probe_isolates_the_broker() -> None:
    sent = Latency("us", "5.5.0", "probe", "broker-a", 3, "SEND_OK", NOW - 10)
    failed = replace(sent, broker_name="broker-b", latency_ms=2_000, send_status=None)
    (sends,) = events_of(SEND_LATENCIES, reading(latencies=(sent, failed)))
    said = [(s["broker_name"], s["isolation"], s["send_status"]) for s in sends]
    assert said == [("broker-a", False, "SEND_OK"), ("broker-b", True, None)]


def test_the_clock_is_never_before_an_event_of_its_round() -> None:
    ahead = NOW + 1_000_000
    latency = Latency("us", "5.5.0", "probe", "broker-a", 3, "SEND_OK", ahead)
    info = {(GROUP, SOLO[0]): (running(process_queue(0, ahead)),)}
    whole = routed(
        brokers={"broker-a": view(BROKER_A, (*SOLO[:2], ahead))},
        brokers_asked=("broker-a",),
        running=info,
        latencies=(latency,),
    )
    events, _ = compute_round(Memory(), whole, NOW)
    assert {topic for topic, _ in events} == {HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES}
    clock = round_clock(whole, NOW)
    assert clock["source"] == "collector"
    assert max(event["event_time_ms"] for _, event in events) <= clock["event_time_ms"]


@pytest.mark.parametrize("groups", [[""], ["x" * 256], [f"g{number}" for number in range(10_001)]])
def test_groups_that_no_clock_event_may_name_are_refused_at_the_start(groups: list[str]) -> None:
    """schemas/events.py bounds `groups`."""
    with pytest.raises(SettingsError, match=r"collector\.groups"):
        Settings.load(collector={"name_server": "ns:9876", "groups": groups})


# What the JVM answers


def test_versions_and_strategies_are_read_as_rocketmq_writes_them() -> None:
    assert [parse_version(v) for v in ("V5_5_0", "V4_9_4_SNAPSHOT")] == ["5.5.0", "V4_9_4_SNAPSHOT"]
    package = "org.apache.rocketmq.client.consumer.rebalance."
    assert parse_strategy(f"{package}AllocateMessageQueueAveragelyByCircle@739d7eca") == "AVG_BY_CIRCLE"
    assert parse_strategy("com.example.OurOwnStrategy@1") is None


def test_an_answer_that_cannot_be_read_is_an_error_of_its_question_only(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = object.__new__(RocketMQAdmin)
    monkeypatch.setattr(admin, "_ext", SimpleNamespace(getAllProducerInfo=None, getAllSubscriptionGroup=None), False)
    for name, value in (("_timeout_ms", 1), ("rate", RequestRate(1_000_000))):
        monkeypatch.setattr(admin, name, value, raising=False)
    monkeypatch.setattr(admin, "_call", lambda *_: None)
    monkeypatch.setattr(admin, "_is_system_group", lambda _: False)
    for answer in ('{"data": {"g": [{"clientId": "x"}]}, "subscriptionGroupTable": {"g": null}}', "[7]", "no JSON"):
        monkeypatch.setattr(admin, "jvm", SimpleNamespace(to_json=lambda _, answer=answer: answer), raising=False)
        for read in (admin.read_producers, admin.read_groups):
            with pytest.raises(RocketMQError, match="could not be read") as caught:
                read(BROKER_A)
            assert (caught.value.is_answer, caught.value.reason) == (True, "failed")


def test_a_client_exception_without_a_code_is_no_answer() -> None:
    for code, is_answer, reason in ((None, False, "failed"), (-1, False, "failed"), (16, True, "refused")):
        error = RocketMQError("MQClientException", code)
        assert (error.is_answer, error.reason) == (is_answer, reason)


def test_json_of_the_jvm_is_read() -> None:
    def clusters(addresses: dict[str, str]) -> dict[str, Any]:
        broker = {"cluster": "c", "brokerName": "broker-a", "brokerAddrs": addresses}
        return {"brokerAddrTable": {"broker-a": broker}, "clusterAddrTable": {"c": ["broker-a"]}}

    both = {"1": "slave:1", "0": "master:1"}
    assert parse_clusters(clusters(both)) == {"c": (Broker("broker-a", 0, "master:1"),)}
    assert parse_clusters(clusters({"1": "slave:1"})) == {"c": (Broker("broker-a", 1, "slave:1"),)}
    info = {"clientId": "x", "remoteIP": "/10.0.0.1:5", "language": "GO", "version": 513, "lastUpdateTimestamp": 7}
    producers = parse_producers({"data": {"g": [info]}}, lambda version: f"v{version}")
    assert producers == {"g": (Connection("x", "10.0.0.1:5", "GO", "v513", 7),)}
    queue = {"topic": TOPIC, "brokerName": "broker-a", "queueId": 3}
    wrapper = {"brokerOffset": 9, "consumerOffset": 8, "pullOffset": 9, "lastTimestamp": 0}
    assert parse_offsets({"offsetTable": [[queue, wrapper]]}) == {(TOPIC, "broker-a", 3): OffsetWrapper(9, 8, 9)}
    reported = parse_running_info(
        {
            "properties": {"clientRebalance": "false"},
            "subscriptionSet": [{"topic": TOPIC, "subString": "*", "subVersion": 5, "expressionType": "TAG"}],
            "mqTable": [[queue, {"commitOffset": -1, "lastPullTimestamp": 12, "droped": True}]],
        }
    )
    assert (reported.strategy, reported.client_rebalance, reported.subscriptions[0].sub_version) == (None, False, 5)
    assert reported.consume_orderly is None
    assert (reported.process_queues[0].is_dropped, reported.process_queues[0].is_locked) == (True, False)
    for orderly, locked in (("true", True), ("false", False)):
        reported = parse_running_info(
            {"properties": {"PROP_CONSUMEORDERLY": orderly}, "mqTable": [[queue, {"locked": locked}]]}
        )
        assert (reported.consume_orderly, reported.process_queues[0].is_locked) == (locked, locked)
