"""What the collector concludes from a round, without RocketMQ and without Kafka."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from conf.settings import Settings
from schemas.decode import decode
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.ingest.collector import run_collector
from streaming.ingest.reading import (
    CLIENT_INNER_PRODUCER,
    BrokerReading,
    Latency,
    Reading,
    find_members,
    find_twins,
)
from streaming.ingest.rocketmq_answers import (
    Broker,
    Connection,
    ConsumerConnection,
    OffsetWrapper,
    ProcessQueue,
    RunningInfo,
    Subscription,
    TopicRoute,
    parse_clusters,
    parse_offsets,
    parse_producers,
    parse_running_info,
    parse_strategy,
    parse_version,
)
from streaming.ingest.rocketmq_jvm import RocketMQError
from streaming.ingest.round_events import ROUTE_REPEAT_MS, Memory, clock_event, compute_round
from streaming.ingest.round_reader import CollectorError, RoundReader, pick_cluster
from streaming.ingest.running_reader import PEACE_SECONDS, Peace, RunningReader, pick_questions
from udfs.route import QueueData

NOW = 1_790_000_000_000
GROUP, TOPIC, TWIN = "orders_group", "orders", "10.0.0.1@same"
BROKER_A, BROKER_B = Broker("broker-a", 0, "10.0.1.1:10911"), Broker("broker-b", 0, "10.0.1.2:10911")
ORDERS = Subscription(TOPIC, "*", NOW - 90_000, "TAG")


def connection(client_addr: str, client_id: str = TWIN, heartbeat_ms: int | None = None) -> Connection:
    return Connection(client_id, client_addr, "JAVA", "5.5.0", heartbeat_ms)


def view(broker: Broker, *channels: tuple[str, str, int], group: str = GROUP, **producers: Any) -> BrokerReading:
    """A broker with one group whose members are (client_id, client_addr, last heartbeat)."""
    members = tuple(connection(addr, client_id) for client_id, addr, _ in channels)
    consumers = ConsumerConnection(
        group, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", (ORDERS,), members
    )
    inner = tuple(connection(addr, client_id, at) for client_id, addr, at in channels)
    return BrokerReading(broker, (consumers,) if members else (), {CLIENT_INNER_PRODUCER: inner, **producers})


def reading(*views: BrokerReading, **fields: Any) -> Reading:
    brokers = {each.broker.broker_name: each for each in views}
    return Reading(**{"cluster": "c", "brokers_asked": tuple(brokers), "brokers": brokers, **fields})


def process_queue(queue_id: int, at: int, *, broker_name: str = "broker-a", **fields: Any) -> ProcessQueue:
    queue = ProcessQueue(TOPIC, broker_name, queue_id, -1, 0, 0, at, is_dropped=False)
    return replace(queue, **fields)


def running(*queues: ProcessQueue, strategy: str | None = "AVG") -> RunningInfo:
    return RunningInfo(strategy, None, None, (ORDERS,), queues)


def of(topic: str, events: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The events of one topic; each is one the contract accepts."""
    for name, event in events:
        assert decode(name, msgspec.json.encode(event), NOW)[1] == []
    return [event for name, event in events if name == topic]


SOLO = ("10.0.0.2@solo", "10.0.0.2:41", NOW - 5_000)
TWINS = ((TWIN, "10.0.0.1:51", NOW - 4_000), (TWIN, "10.0.0.1:52", NOW - 70_000))


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
    assert clock_event(second, NOW + 1_000, memory.groups)[1].get("deleted_groups") == deleted, reason
    _, memory = compute_round(memory, second, NOW + 1_000)
    assert any("gone" in names for names in memory.groups.values()) == (deleted is None)


def test_a_broker_that_is_gone_for_good_has_deleted_no_group() -> None:
    first = reading(with_groups(view(BROKER_A), "g"), with_groups(view(BROKER_B), "on_b_only"))
    _, memory = compute_round(Memory(), first, NOW)
    without = reading(with_groups(view(BROKER_A), "g"))
    assert without.brokers_asked == ("broker-a",)
    assert "deleted_groups" not in clock_event(without, NOW + 1_000, memory.groups)[1]


def test_each_channel_of_each_broker_has_a_heartbeat_at_its_true_time() -> None:
    events, _ = compute_round(Memory(), reading(view(BROKER_A, *TWINS), view(BROKER_B, TWINS[0])), NOW)
    said = [(h["broker_name"], h["client_addr"], h["event_time_ms"]) for h in of(HEARTBEATS, events)]
    assert said == [
        ("broker-a", "10.0.0.1:51", NOW - 4_000),
        ("broker-a", "10.0.0.1:52", NOW - 70_000),
        ("broker-b", "10.0.0.1:51", NOW - 4_000),
    ]


def test_a_channel_that_is_only_listed_again_is_not_said_again() -> None:
    _, memory = compute_round(Memory(), reading(view(BROKER_A, *TWINS)), NOW)
    events, memory = compute_round(memory, reading(view(BROKER_A, *TWINS)), NOW + 1_000)
    assert of(HEARTBEATS, events) == []
    beat = (TWIN, "10.0.0.1:51", NOW + 1_500)
    events, _ = compute_round(memory, reading(view(BROKER_A, beat, TWINS[1])), NOW + 2_000)
    assert [h["event_time_ms"] for h in of(HEARTBEATS, events)] == [NOW + 1_500]


def test_a_broker_whose_clock_is_ahead_does_not_overtake_the_round() -> None:
    ahead = (TWIN, "10.0.0.1:51", NOW + 90_000)
    events, memory = compute_round(Memory(), reading(view(BROKER_A, ahead)), NOW)
    assert [h["event_time_ms"] for h in of(HEARTBEATS, events)] == [NOW]
    assert of(HEARTBEATS, compute_round(memory, reading(view(BROKER_A, ahead)), NOW + 1_000)[0]) == []


def test_without_code_328_being_listed_counts_as_now() -> None:
    silent = replace(view(BROKER_A, SOLO), producers={})
    _, memory = compute_round(Memory(), reading(silent), NOW)
    events, _ = compute_round(memory, reading(silent), NOW + 1_000)
    assert [h["event_time_ms"] for h in of(HEARTBEATS, events)] == [NOW + 1_000]


def test_a_channel_no_longer_listed_leaves_with_its_groups() -> None:
    _, memory = compute_round(Memory(), reading(view(BROKER_A, *TWINS)), NOW)
    events, memory = compute_round(memory, reading(view(BROKER_A, TWINS[1])), NOW + 1_000)
    (left,) = of(HEARTBEATS, events)
    assert (left["client_addr"], left["leaving"], left["event_time_ms"]) == ("10.0.0.1:51", True, NOW + 1_000)
    assert [consumer["consumer_group"] for consumer in left["consumers"]] == [GROUP]
    assert of(HEARTBEATS, compute_round(memory, reading(view(BROKER_A, TWINS[1])), NOW + 2_000)[0]) == []


def test_a_group_no_longer_listed_leaves_and_the_channel_stays() -> None:
    both = view(BROKER_A, SOLO)
    other = replace(both.groups[0], consumer_group="other_group")
    _, memory = compute_round(Memory(), reading(replace(both, groups=(*both.groups, other))), NOW)
    events, _ = compute_round(memory, reading(both), NOW + 1_000)
    left, stayed = of(HEARTBEATS, events)
    assert (left.get("leaving"), [c["consumer_group"] for c in left["consumers"]]) == (True, ["other_group"])
    assert (stayed.get("leaving"), [c["consumer_group"] for c in stayed["consumers"]]) == (None, [GROUP])


def test_of_a_broker_that_did_not_answer_nothing_is_concluded() -> None:
    asked = ("broker-a", "broker-b")
    _, memory = compute_round(Memory(), reading(view(BROKER_A, SOLO), view(BROKER_B, SOLO)), NOW)
    lost = reading(view(BROKER_A, SOLO), brokers_asked=asked)
    events, memory = compute_round(memory, lost, NOW + 1_000)
    assert of(HEARTBEATS, events) == []
    assert clock_event(lost, NOW + 1_000)[1]["brokers_answered"] == ["broker-a"]
    events, _ = compute_round(memory, reading(view(BROKER_A, SOLO), view(BROKER_B)), NOW + 2_000)
    assert [(h["broker_name"], h["leaving"]) for h in of(HEARTBEATS, events)] == [("broker-b", True)]


def test_a_producer_shares_its_channel_with_its_consumer() -> None:
    groups = {"pay": (connection("10.0.0.2:41", SOLO[0], NOW - 5_000),), "ship": (connection("10.0.0.9:1", "p", NOW),)}
    events, _ = compute_round(Memory(), reading(view(BROKER_A, SOLO, **groups)), NOW)
    said = [(h["client_id"], h["producer_groups"], len(h["consumers"])) for h in of(HEARTBEATS, events)]
    assert said == [(SOLO[0], ("pay",), 1), ("p", ("ship",), 0)]


def test_our_own_and_groupless_clients_are_left_out() -> None:
    ours = view(BROKER_A, SOLO, balancewatch=(connection("10.0.0.3:1", "us", NOW),))
    tool = replace(ours, producers={**ours.producers, CLIENT_INNER_PRODUCER: (connection("10.0.0.4:1", "tool", NOW),)})
    events, _ = compute_round(Memory(), reading(tool, own_client_ids=frozenset(["us"])), NOW)
    assert [h["client_id"] for h in of(HEARTBEATS, events)] == [SOLO[0]]


def test_a_member_tells_its_strategy_and_its_own_subscriptions_twins_only_the_strategy() -> None:
    told = replace(running(), subscriptions=(replace(ORDERS, topic="other"),))
    for channels, topics in ((SOLO,), ["other"]), (TWINS, [TOPIC]):
        member = {(GROUP, channels[0][0]): (told,)}
        events, memory = compute_round(Memory(), reading(view(BROKER_A, *channels), running=member), NOW)
        (consumer,) = of(HEARTBEATS, events)[0]["consumers"]
        assert (consumer["strategy"], [s["topic"] for s in consumer["subscriptions"]]) == ("AVG", topics)
        silent, _ = compute_round(memory, reading(view(BROKER_A, *channels)), NOW + 1_000)
        assert of(HEARTBEATS, silent) == []  # what was told once still holds


def test_a_member_tells_whether_it_consumes_in_order_until_it_tells_otherwise() -> None:
    member, seen = (GROUP, SOLO[0]), []
    memory = Memory()
    for consume_orderly in (None, True, None, False):
        told = replace(running(), consume_orderly=consume_orderly)
        events, memory = compute_round(memory, reading(view(BROKER_A, SOLO), running={member: (told,)}), NOW)
        seen += [
            consumer["consume_orderly"] for heartbeat in of(HEARTBEATS, events) for consumer in heartbeat["consumers"]
        ]
    assert seen == [None, True, False]


# Pulls


def test_a_pull_is_said_when_it_is_later_than_the_last_one() -> None:
    member = (GROUP, SOLO[0])
    queues = running(process_queue(0, NOW - 9_000), process_queue(1, 0), process_queue(2, NOW, is_dropped=True))
    first = reading(view(BROKER_A, SOLO), running={member: (queues,)})
    events, memory = compute_round(Memory(), first, NOW)
    (pull,) = of(PULLS, events)
    assert (pull["queue_id"], pull["client_addr"], pull["event_time_ms"]) == (0, "10.0.0.2:41", NOW - 9_000)
    assert (pull["pull_offset"], pull["commit_offset"], pull["max_offset"]) == (0, None, None)
    events, memory = compute_round(memory, first, NOW + 1_000)
    assert of(PULLS, events) == []
    later = running(process_queue(0, NOW + 1_500))
    events, _ = compute_round(memory, reading(view(BROKER_A, SOLO), running={member: (later,)}), NOW + 2_000)
    assert [p["event_time_ms"] for p in of(PULLS, events)] == [NOW + 1_500]


def test_a_pull_carries_the_brokers_offsets() -> None:
    member = (GROUP, SOLO[0])
    offsets = {(GROUP, (TOPIC, "broker-a", 0)): OffsetWrapper(120, 100, 110)}
    info = running(process_queue(0, NOW), process_queue(1, NOW, cached_msg_count=3, cached_msg_max_offset=7))
    events, _ = compute_round(Memory(), reading(view(BROKER_A, SOLO), running={member: (info,)}, offsets=offsets), NOW)
    said = [(p["pull_offset"], p["commit_offset"], p["max_offset"]) for p in of(PULLS, events)]
    assert said == [(110, 100, 120), (8, None, None)]


def test_a_pull_of_twins_names_no_channel_and_the_later_of_both_counts() -> None:
    infos = (running(process_queue(0, NOW - 3_000)), running(process_queue(0, NOW - 1_000)))
    events, _ = compute_round(Memory(), reading(view(BROKER_A, *TWINS), running={(GROUP, TWIN): infos}), NOW)
    (pull,) = of(PULLS, events)
    assert (pull["client_addr"], pull["client_id"], pull["event_time_ms"]) == (None, TWIN, NOW - 1_000)


def test_a_pull_names_the_channel_at_the_queues_own_broker() -> None:
    at_b = (SOLO[0], "10.0.0.2:77", NOW)
    info = running(process_queue(0, NOW, broker_name="broker-b"))
    events, _ = compute_round(
        Memory(), reading(view(BROKER_A, SOLO), view(BROKER_B, at_b), running={(GROUP, SOLO[0]): (info,)}), NOW
    )
    assert [p["client_addr"] for p in of(PULLS, events)] == ["10.0.0.2:77"]


def test_a_pull_of_a_group_that_may_not_consume_is_refused_at_that_broker_only() -> None:
    info = running(process_queue(0, NOW), process_queue(0, NOW, broker_name="broker-b"))
    refusing = replace(view(BROKER_A, SOLO), refused=frozenset([GROUP]))
    silent = replace(view(BROKER_A, SOLO), refused=frozenset(["other_group"]))
    for at_a, status in ((refusing, "NO_PERMISSION"), (silent, None)):
        views = (at_a, view(BROKER_B, SOLO))
        events, _ = compute_round(Memory(), reading(*views, running={(GROUP, SOLO[0]): (info,)}), NOW)
        said = [(pull["broker_name"], pull["pull_status"]) for pull in of(PULLS, events)]
        assert said == [("broker-a", status), ("broker-b", None)]


def test_an_orderly_consumer_does_not_pull_what_it_could_not_lock() -> None:
    queues = (process_queue(0, NOW), process_queue(1, NOW, is_locked=True))
    for consume_orderly, pulled in ((True, [1]), (False, [0, 1]), (None, [0, 1])):
        info = replace(running(*queues), consume_orderly=consume_orderly)
        events, _ = compute_round(Memory(), reading(view(BROKER_A, SOLO), running={(GROUP, SOLO[0]): (info,)}), NOW)
        assert [pull["queue_id"] for pull in of(PULLS, events)] == pulled


def test_retry_topics_stay_out_of_pulls() -> None:
    info = running(process_queue(0, NOW, topic=f"%RETRY%{GROUP}"))
    events, _ = compute_round(Memory(), reading(view(BROKER_A, SOLO), running={(GROUP, SOLO[0]): (info,)}), NOW)
    assert of(PULLS, events) == []


# Routes


ROUTE = TopicRoute(TOPIC, (QueueData("broker-a", 4, 4, 6),), (("broker-a", (0,)),), order_topic=False)


def routed(route: TopicRoute | None = ROUTE, **fields: Any) -> Reading:
    routes = (route,) if route else ()
    topics = frozenset(each.topic for each in routes)
    return reading(**{"routes": routes, "topics": topics, "registered": frozenset(["broker-a"]), **fields})


def test_a_route_is_said_when_it_changes_and_every_half_minute() -> None:
    events, memory = compute_round(Memory(), routed(), NOW)
    assert len(of(ROUTES, events)) == 1
    assert of(ROUTES, compute_round(memory, routed(), NOW + ROUTE_REPEAT_MS - 1)[0]) == []
    assert len(of(ROUTES, compute_round(memory, routed(), NOW + ROUTE_REPEAT_MS)[0])) == 1
    more = replace(ROUTE, queues=(QueueData("broker-a", 8, 8, 6),))
    (changed,) = of(ROUTES, compute_round(memory, routed(more), NOW + 1)[0])
    assert changed["queues"][0]["read_queue_nums"] == 8


def test_a_deleted_topic_is_said_once_without_queues() -> None:
    _, memory = compute_round(Memory(), routed(), NOW)
    events, memory = compute_round(memory, routed(None), NOW + 1)
    assert [(r["topic"], r["queues"]) for r in of(ROUTES, events)] == [(TOPIC, [])]
    assert of(ROUTES, compute_round(memory, routed(None), NOW + 2)[0]) == []


@pytest.mark.parametrize(
    "fields", [{"registered": frozenset()}, {"registered": None, "topics": None}, {"topics": frozenset([TOPIC])}]
)
def test_a_topic_lost_with_its_brokers_or_not_read_is_not_deleted(fields: dict[str, Any]) -> None:
    _, memory = compute_round(Memory(), routed(), NOW)
    assert of(ROUTES, compute_round(memory, routed(None, **fields), NOW + 1)[0]) == []


# Probes and the clock


def test_a_failed_probe_isolates_the_broker() -> None:
    sent = Latency("us", "5.5.0", "probe", "broker-a", 3, "SEND_OK", NOW - 10)
    failed = replace(sent, broker_name="broker-b", latency_ms=2_000, send_status=None)
    events, _ = compute_round(Memory(), reading(latencies=(sent, failed)), NOW)
    said = [(s["broker_name"], s["isolation"], s["send_status"]) for s in of(SEND_LATENCIES, events)]
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
    clock = clock_event(whole, NOW)
    assert of(CLOCKS, [clock])[0]["source"] == "collector"
    assert max(event["event_time_ms"] for _, event in events) <= clock[1]["event_time_ms"]


# Whom to ask


def test_a_member_is_asked_once_and_twins_through_every_broker() -> None:
    views = [view(BROKER_A, *TWINS, SOLO), view(BROKER_B, TWINS[0], SOLO)]
    assert find_twins(views) == {(GROUP, TWIN)}
    assert find_members(views)[(GROUP, SOLO[0])] == ["broker-a", "broker-b"]
    assert pick_questions(views) == [
        ("broker-a", GROUP, TWIN),
        ("broker-b", GROUP, TWIN),
        ("broker-a", GROUP, SOLO[0]),
    ]


def test_one_client_id_from_two_hosts_at_two_brokers_is_a_twin() -> None:
    other = (TWIN, "10.0.0.7:51", NOW)
    assert find_twins([view(BROKER_A, TWINS[0]), view(BROKER_B, other)]) == {(GROUP, TWIN)}


def test_peace_ends_with_a_new_heartbeat_and_lasts_longer_each_time() -> None:
    peace = Peace.after(None, 100.0, NOW)
    assert not peace.is_over(100.0 + PEACE_SECONDS - 1, NOW + 1)
    assert not peace.is_over(100.0 + PEACE_SECONDS, NOW)
    assert peace.is_over(100.0 + PEACE_SECONDS, NOW + 1)
    assert Peace.after(peace, 200.0, NOW).not_before == 200.0 + 2 * PEACE_SECONDS


class Clients:
    """Clients that answer, or do not; counts the questions, and those a client had at the same time."""

    def __init__(self, *, is_silent: bool) -> None:
        self.asked: Counter[str] = Counter()
        self._is_silent = is_silent
        self._busy: dict[str, threading.Lock] = {}

    def read_running_info(self, _: Broker, __: str, client_id: str) -> RunningInfo:
        lock = self._busy.setdefault(client_id, threading.Lock())
        assert lock.acquire(blocking=False), "two questions at once"
        try:
            self.asked[client_id] += 1
            if self._is_silent:
                raise RocketMQError("RemotingTimeoutException", is_timeout=True)
            return running(process_queue(0, NOW))
        finally:
            lock.release()


@pytest.mark.parametrize(("is_silent", "asked"), [(False, [2, 4]), (True, [1, 2])])
def test_a_client_has_one_question_at_a_time_and_none_after_a_timeout(is_silent: bool, asked: list[int]) -> None:
    clients = Clients(is_silent=is_silent)
    views = {"broker-a": view(BROKER_A, *TWINS), "broker-b": view(BROKER_B, *TWINS)}
    with ThreadPoolExecutor(4) as pool:
        reader = RunningReader(clients, pool)
        seen = []
        for _ in range(2):
            reader.read(views)
            seen.append(clients.asked[TWIN])
    assert seen == asked  # silent: through broker-a, then through broker-b, then not at all


class FakeAdmin:
    """Two brokers; tests take away what they like."""

    client_version = "5.5.0"
    client_ids = frozenset(["us"])

    def __init__(self) -> None:
        self.has_name_server = True
        self.dead: set[str] = set()
        self.groups = {GROUP: True}
        self.refusal: RocketMQError | None = None

    def read_clusters(self) -> dict[str, tuple[Broker, ...]]:
        if not self.has_name_server:
            raise RocketMQError("RemotingConnectException")
        return {"c": tuple(b for b in (BROKER_A, BROKER_B) if b.broker_name not in self.dead)}

    def read_topics(self) -> list[str]:
        return [TOPIC, "balancewatch_probe"]

    def read_route(self, topic: str) -> TopicRoute | None:
        return replace(ROUTE, topic=topic)

    def read_groups(self, broker: Broker) -> dict[str, bool]:
        if self.refusal:
            raise self.refusal
        return self.groups

    def read_consumer_connection(self, broker: Broker, group: str) -> ConsumerConnection | None:
        return view(broker, SOLO).groups[0]

    def read_producers(self, broker: Broker) -> dict[str, tuple[Connection, ...]]:
        if broker.broker_name in self.dead:
            raise RocketMQError("RemotingConnectException")
        return dict(view(broker, SOLO).producers)

    def read_running_info(self, broker: Broker, group: str, client_id: str) -> RunningInfo:
        return running(process_queue(0, NOW))

    def read_offsets(self, broker: Broker, group: str) -> dict[tuple[str, str, int], OffsetWrapper]:
        return {(TOPIC, broker.broker_name, 0): OffsetWrapper(1, 1, 1)}

    def start_producer(self, group: str) -> str:
        return "us"

    def prepare_send(self, broker: Broker, topic: str) -> bool:
        return True

    def send(self, broker_name: str, topic: str, body: bytes) -> tuple[str, float]:
        if broker_name in self.dead:
            raise RocketMQError("RemotingConnectException")
        return "SEND_OK", 0.004


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


@pytest.fixture
def reader(admin: FakeAdmin) -> Any:
    reader = RoundReader(Settings.load(collector={"probe": True}).collector, admin)
    yield reader
    reader.close()


def test_a_round_reads_every_broker_for_itself(reader: RoundReader) -> None:
    whole = reader.read()
    assert (whole.cluster, whole.brokers_asked, set(whole.brokers)) == (
        "c",
        ("broker-a", "broker-b"),
        {"broker-a", "broker-b"},
    )
    assert whole.topics == {TOPIC}  # not the probe's own
    assert [(each.broker_name, each.latency_ms) for each in whole.latencies] == [("broker-a", 4), ("broker-b", 4)]
    assert set(whole.offsets) == {(GROUP, (TOPIC, name, 0)) for name in ("broker-a", "broker-b")}


def test_a_group_whose_consumption_is_disabled_is_refused(reader: RoundReader, admin: FakeAdmin) -> None:
    assert reader.read().brokers["broker-a"].refused == frozenset()
    admin.groups = {GROUP: False, "other_group": True}
    assert reader.read().brokers["broker-a"].refused == {GROUP}


def test_who_may_not_list_the_groups_but_names_them_reads_them_all_the_same(admin: FakeAdmin) -> None:
    reader = RoundReader(Settings.load(collector={"groups": [GROUP]}).collector, admin)
    admin.refusal = RocketMQError("no permission", 16)
    read = reader.read().brokers["broker-a"]
    assert ([group.consumer_group for group in read.groups], read.refused) == ([GROUP], frozenset())
    admin.refusal = RocketMQError("RemotingConnectException")
    assert reader.read().brokers == {}
    reader.close()


def test_who_may_not_list_the_groups_and_names_none_reads_no_broker(reader: RoundReader, admin: FakeAdmin) -> None:
    admin.refusal = RocketMQError("no permission", 16)
    assert reader.read().brokers == {}


def test_a_dead_broker_is_still_asked_for(reader: RoundReader, admin: FakeAdmin) -> None:
    reader.read()
    admin.dead = {"broker-b"}
    rest = reader.read()
    assert (rest.brokers_asked, set(rest.brokers)) == (("broker-a", "broker-b"), {"broker-a"})
    assert [each.send_status for each in rest.latencies] == ["SEND_OK", None]


def test_without_the_name_server_known_brokers_are_read_and_no_topic_is_concluded(
    reader: RoundReader, admin: FakeAdmin
) -> None:
    reader.read()
    admin.has_name_server = False
    rest = reader.read()
    assert (set(rest.brokers), rest.registered, rest.topics) == ({"broker-a", "broker-b"}, None, None)


def test_without_any_broker_known_a_round_fails(reader: RoundReader, admin: FakeAdmin) -> None:
    admin.has_name_server = False
    with pytest.raises(RocketMQError):
        reader.read()


def test_the_cluster_is_picked_by_name_renamed_when_alone_and_never_guessed() -> None:
    one, two = {"c": (BROKER_A,)}, {"c": (BROKER_A,), "d": (BROKER_B,)}
    assert pick_cluster(one, "") == ("c", (BROKER_A,))
    assert pick_cluster(one, "orders-prod") == ("orders-prod", (BROKER_A,))
    assert pick_cluster(two, "d") == ("d", (BROKER_B,))
    with pytest.raises(CollectorError, match="name one of c, d"):
        pick_cluster(two, "")


def test_a_collector_without_name_server_says_which_key_to_set() -> None:
    with pytest.raises(CollectorError, match=r"collector\.name_server is empty"):
        run_collector(Settings.load(), threading.Event())


# What the JVM answers


def test_versions_and_strategies_are_read_as_rocketmq_writes_them() -> None:
    assert [parse_version(v) for v in ("V5_5_0", "V4_9_4_SNAPSHOT")] == ["5.5.0", "V4_9_4_SNAPSHOT"]
    package = "org.apache.rocketmq.client.consumer.rebalance."
    assert parse_strategy(f"{package}AllocateMessageQueueAveragelyByCircle@739d7eca") == "AVG_BY_CIRCLE"
    assert parse_strategy("com.example.OurOwnStrategy@1") is None


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
    told = parse_running_info(
        {
            "properties": {"clientRebalance": "false"},
            "subscriptionSet": [{"topic": TOPIC, "subString": "*", "subVersion": 5, "expressionType": "TAG"}],
            "mqTable": [[queue, {"commitOffset": -1, "lastPullTimestamp": 12, "droped": True}]],
        }
    )
    assert (told.strategy, told.client_rebalance, told.subscriptions[0].sub_version) == (None, False, 5)
    assert told.consume_orderly is None
    assert (told.process_queues[0].is_dropped, told.process_queues[0].is_locked) == (True, False)
    for orderly, locked in (("true", True), ("false", False)):
        told = parse_running_info(
            {"properties": {"PROP_CONSUMEORDERLY": orderly}, "mqTable": [[queue, {"locked": locked}]]}
        )
        assert (told.consume_orderly, told.process_queues[0].is_locked) == (locked, locked)
