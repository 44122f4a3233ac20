"""The reading of a round with all answers, and with refused and lost ones."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from conf.settings import Settings
from streaming.collector import known_brokers, round_reader
from streaming.collector.known_brokers import UNROUTED_SECONDS, CollectorError, KnownBrokers, pick_cluster
from streaming.collector.reading import Unheard
from streaming.collector.rocketmq_answers import Broker, RunningInfo
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.collector.round_reader import RoundReader
from tests.collector.rounds import (
    BROKER_A,
    BROKER_B,
    GROUP,
    ROUTE,
    SOLO,
    TOPIC,
    Clock,
    FakeAdmin,
    refused,
    running,
    timed_out,
)
from udfs.rocketmq.own_names import REVIVE_GROUP

UNREACHABLE = RocketMQError("RemotingConnectException")


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


@pytest.fixture
def reader(admin: FakeAdmin) -> Iterator[RoundReader]:
    yield from made(admin, probe=True)


def made(admin: FakeAdmin, **settings: Any) -> Iterator[RoundReader]:
    reader = RoundReader(Settings.load(collector=settings).collector, admin)
    yield reader
    reader.close()


def test_a_round_reads_every_broker_for_itself(reader: RoundReader) -> None:
    whole = reader.read()
    names = ("broker-a", "broker-b")
    assert (whole.cluster, whole.brokers_asked, set(whole.brokers)) == ("c", names, set(names))
    assert whole.topics == {TOPIC}  # not the probe's own
    assert [(each.broker_name, each.latency_ms) for each in whole.latencies] == [("broker-a", 4), ("broker-b", 4)]
    assert set(whole.offsets) == {(GROUP, (TOPIC, name, 0)) for name in names}
    assert whole.unheard == ()


def test_a_group_whose_consumption_is_disabled_is_refused(reader: RoundReader, admin: FakeAdmin) -> None:
    assert reader.read().brokers["broker-a"].refused == frozenset()
    admin.groups = {GROUP: False, "other_group": True}
    assert reader.read().brokers["broker-a"].refused == {GROUP}


# Answers that are refused


def test_named_groups_are_read_although_their_list_is_refused(admin: FakeAdmin) -> None:
    reader = RoundReader(Settings.load(collector={"groups": [GROUP]}).collector, admin)
    admin.fail(refused(), "read_groups", "broker-a")
    read = reader.read().brokers["broker-a"]
    assert ([group.consumer_group for group in read.groups], read.refused) == ([GROUP], frozenset())
    admin.fail(UNREACHABLE, "read_groups", "broker-a")
    assert set(reader.read().brokers) == {"broker-b"}
    reader.close()


def test_without_named_groups_a_refused_list_fails_the_broker(reader: RoundReader, admin: FakeAdmin) -> None:
    admin.fail(refused(), "read_groups", "broker-a")
    assert set(reader.read().brokers) == {"broker-b"}


def test_a_list_of_groups_that_is_refused_for_once_is_the_last_one(reader: RoundReader, admin: FakeAdmin) -> None:
    reader.read()
    admin.fail(refused(2), "read_groups", "broker-a")  # SYSTEM_BUSY
    read = reader.read().brokers["broker-a"]
    assert ([group.consumer_group for group in read.groups], read.group_names) == ([GROUP], None)


def test_one_of_fifty_groups_that_is_refused_is_named_and_the_others_are_read(
    reader: RoundReader, admin: FakeAdmin
) -> None:
    admin.groups = {f"g{number}": True for number in range(50)}
    for name in ("broker-a", "broker-b"):
        admin.fail(refused(), "read_consumer_connection", name, "g7")
    whole = reader.read()
    assert set(whole.brokers) == {"broker-a", "broker-b"}
    for name, read in whole.brokers.items():
        assert (len(read.groups), read.unread) == (49, {"g7"})
        assert Unheard(name, "g7", None, "refused") in whole.unheard
    assert len(whole.unheard) == 2


def test_producers_that_are_refused_are_not_reported_and_cost_nothing_else(
    reader: RoundReader, admin: FakeAdmin
) -> None:
    assert reader.read().brokers["broker-a"].reports_producers
    admin.fail(refused(), "read_producers", "broker-a")
    read = reader.read().brokers["broker-a"]
    assert (read.reports_producers, read.producers, len(read.groups)) == (False, {}, 1)


# Answers that are lost


@pytest.mark.parametrize(
    "question",
    [
        ("read_producers", "broker-b"),
        ("read_groups", "broker-b"),
        ("read_consumer_connection", "broker-b", GROUP),
    ],
)
@pytest.mark.parametrize("error", [timed_out(), UNREACHABLE])
def test_one_lost_answer_costs_nothing(
    reader: RoundReader, admin: FakeAdmin, question: tuple[str, ...], error: RocketMQError
) -> None:
    admin.fail(error, *question, times=1)
    whole = reader.read()
    assert (set(whole.brokers), whole.unheard) == ({"broker-a", "broker-b"}, ())
    assert admin.asked[question] == 2


def test_a_group_whose_question_is_lost_twice_is_named_and_keeps_the_members_it_had(
    reader: RoundReader, admin: FakeAdmin
) -> None:
    admin.groups = {"before": True, GROUP: True, "after": True}
    reader.read()
    admin.fail(timed_out(), "read_consumer_connection", "broker-b", GROUP)
    whole = reader.read()
    read = whole.brokers["broker-b"]
    assert (len(read.groups), read.unread) == (3, {GROUP})
    assert whole.unheard == (Unheard("broker-b", GROUP, None, "timed_out"),)
    assert set(whole.running) == {(name, SOLO[0]) for name in admin.groups}  # its members are asked all the same


def test_a_broker_that_loses_two_groups_in_a_row_does_not_answer(reader: RoundReader, admin: FakeAdmin) -> None:
    admin.groups = {f"g{number}": True for number in range(50)}
    for number in range(1, 50):
        admin.fail(timed_out(), "read_consumer_connection", "broker-b", f"g{number}")
    assert set(reader.read().brokers) == {"broker-a"}
    assert admin.asked["read_consumer_connection", "broker-b", "g3"] == 0


def test_a_broker_that_was_silent_is_asked_only_once_a_round(reader: RoundReader, admin: FakeAdmin) -> None:
    reader.read()
    admin.dead = {"broker-b"}
    for questions in (1 + 2, 1 + 2 + 1):
        reader.read()
        assert admin.asked["read_producers", "broker-b"] == questions


def test_offsets_that_are_lost_blind_only_a_group_whose_members_describe_no_queues(
    reader: RoundReader, admin: FakeAdmin
) -> None:
    admin.fail(refused(), "read_offsets", "broker-b", GROUP)
    whole = reader.read()
    assert (set(whole.offsets), whole.unheard) == ({(GROUP, (TOPIC, "broker-a", 0))}, ())
    admin.running = running()
    assert reader.read().unheard == (Unheard("broker-b", GROUP, None, "refused"),)


# A round's end


class HangingAdmin(FakeAdmin):
    """A fleet whose clients answer no question in time, and a broker that stops answering for offsets."""

    def read_running_info(self, broker: Broker, group: str, client_id: str) -> RunningInfo:
        time.sleep(0.1)
        raise timed_out()

    def read_offsets(self, broker: Broker, group: str) -> Any:
        self.asked["read_offsets", broker.broker_name] += 1
        time.sleep(0.1)
        raise timed_out()


def test_a_round_ends_within_its_interval_although_hundreds_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_reader, "LEAST_SECONDS", 0.2)
    admin = HangingAdmin()
    admin.groups = {f"g{number}": True for number in range(300)}  # 600 questions of 0.1 s for offsets, in 8 threads
    for reader in made(admin, interval_seconds=1.6):
        whole = reader.read()
        asked = sum(count for question, count in admin.asked.items() if question[0] == "read_offsets")
        assert asked < 300  # half of them would take 3.8 s
        assert set(whole.brokers) == {"broker-a", "broker-b"}
        assert {each.reason for each in whole.unheard} <= {"timed_out", "no_time"}
        assert {each.consumer_group for each in whole.unheard} == set(admin.groups)


# Which brokers there are


def test_a_dead_broker_is_asked_until_an_operator_forgets_it(
    reader: RoundReader, admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.read()
    admin.dead = {"broker-b"}
    admin.routes = [ROUTE]  # the NameServer forgets its routes with it
    rest = reader.read()
    assert (rest.brokers_asked, set(rest.brokers)) == (("broker-a", "broker-b"), {"broker-a"})
    assert [each.send_status for each in rest.latencies] == ["SEND_OK", None]
    clock = Clock()
    monkeypatch.setattr(known_brokers, "time", clock)
    brokers = KnownBrokers("ns:9876", "")
    brokers.learn({"c": (BROKER_A, BROKER_B)})
    for _ in range(10):
        clock.ahead += 100_000
        brokers.note_routes([ROUTE])
        brokers.learn({"c": (BROKER_A,)})
    assert set(brokers.by_name) == {"broker-a", "broker-b"}


def test_a_broker_whose_topics_were_moved_away_while_it_was_registered_is_forgotten_when_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(known_brokers, "time", clock)
    both, rest = {"c": (BROKER_A, BROKER_B)}, {"c": (BROKER_A,)}
    brokers = KnownBrokers("ns:9876", "")
    for seconds in (0, UNROUTED_SECONDS - 1):  # its routes were read a moment after it died: no decision
        brokers.learn(both)
        clock.ahead += seconds
        brokers.note_routes([ROUTE])
    brokers.learn(rest)
    assert set(brokers.by_name) == {"broker-a", "broker-b"}
    brokers.learn(both)
    clock.ahead += 1
    brokers.note_routes([ROUTE])
    assert set(brokers.by_name) == {"broker-a", "broker-b"}  # it is registered
    brokers.learn(rest)
    assert set(brokers.by_name) == {"broker-a"}


def test_a_forgotten_broker_is_asked_no_more_unless_it_is_registered() -> None:
    brokers = KnownBrokers("ns:9876", "")
    brokers.learn({"c": (BROKER_A, BROKER_B)})
    brokers.learn({"c": (BROKER_A,)})
    brokers.forget(["broker-a", "broker-b", "no-such"])
    assert set(brokers.by_name) == {"broker-a"}
    brokers.learn({"c": (BROKER_A, BROKER_B)})
    assert set(brokers.by_name) == {"broker-a", "broker-b"}


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
    with pytest.raises(CollectorError, match="choose one of c, d"):
        pick_cluster(two, "")


@pytest.mark.parametrize("wanted", ["", "c", "orders-prod"])
def test_a_cluster_whose_brokers_all_died_is_not_replaced_by_another_of_its_name_server(wanted: str) -> None:
    brokers = KnownBrokers("ns:9876", wanted)
    brokers.learn({"c": (BROKER_A,)})
    name = brokers.cluster
    brokers.learn({"c": (BROKER_A,), "d": (BROKER_B,)})
    brokers.learn({"d": (BROKER_B,)})
    assert (brokers.cluster, set(brokers.by_name)) == (name, {"broker-a"})


def test_a_cluster_that_was_renamed_is_followed() -> None:
    brokers = KnownBrokers("ns:9876", "")
    brokers.learn({"c": (BROKER_A,)})
    brokers.learn({"renamed": (BROKER_A,)})
    assert brokers.cluster == "renamed"


def test_a_broker_is_asked_how_far_it_has_read_its_revive_log_and_rarely_where_there_is_none(admin: FakeAdmin) -> None:
    question = ("read_offsets", "broker-a", REVIVE_GROUP)
    for reader in made(admin):
        for _ in range(3):
            assert {group for group, _ in reader.read().offsets} == {GROUP}
        assert admin.asked[question] == 1
        admin.revive_logs = {"broker-a"}
        for answered in (1, 2, 3):
            reader._revives_from.clear()
            assert {group for group, _ in reader.read().offsets} == {GROUP, REVIVE_GROUP}
            assert admin.asked[question] == 1 + answered


def test_with_named_groups_no_revive_log_is_requested(admin: FakeAdmin) -> None:
    for reader in made(admin, groups=[GROUP]):
        reader.read()
    assert admin.asked[("read_offsets", "broker-a", REVIVE_GROUP)] == 0


def test_each_name_server_is_asked_for_itself_and_those_that_do_not_answer_are_named(admin: FakeAdmin) -> None:
    reader = RoundReader(Settings.load(collector={"name_server": "ns-1:9876; ns-2:9876;"}).collector, admin)
    admin.fail(UNREACHABLE, "ask_name_server", "ns-1:9876")
    whole = reader.read()
    reader.close()
    assert whole.name_servers == ("ns-1:9876", "ns-2:9876")
    assert whole.name_servers_unreachable == ("ns-1:9876",)
    assert whole.registered == {"broker-a", "broker-b"}
