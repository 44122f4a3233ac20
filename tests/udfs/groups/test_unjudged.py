"""POP, gRPC, assign() consumers, the broker itself: nobody shares queues out; offline and standstill are judged."""

import pytest

from tests.udfs.groups.facts import Life, Pull, at
from udfs.groups.findings.members import ASSIGNED_MS
from udfs.groups.queue_state import NOT_CONSUMED, NOT_JUDGED
from udfs.groups.state import GroupState
from udfs.rocketmq.own_names import REVIVE_GROUP

POP = {"consume_type": "CONSUME_POP"}
BROADCASTING = {"message_model": "BROADCASTING"}
SERVER_REBALANCE = {"client_rebalance": False}
GRPC_ID = "order-service-7d9f8b6c5-x2v4k@1@0@5q1m3zk2"


class Unshared(Life):
    """Members that hold no queues; a collector reads the offsets of two queues each 10 s. 50 messages a second come."""

    def __init__(self, *, topics: tuple[str, ...] = ("orders",), client_id: str = "a@7", **reported: object) -> None:
        super().__init__(queues=2)
        self.commit = self.end = 1_000
        self.joining = {"topics": topics, **reported}
        self.join("h1:1", client_id)

    def join(self, client_addr: str, client_id: str) -> None:
        self.start(client_addr, client_id, **self.joining)

    def live(
        self, until: float, *, consumes: bool = True, come: int = 50, told: bool = True
    ) -> list[tuple[float, str, str, str]]:
        said = []
        while self.now < until:
            said += self.run(self.now + 10)
            self.end += 10 * come
            self.commit = self.end if consumes else self.commit
            for queue_id in (0, 1) if told else ():
                offsets = {"commit_offset": self.commit, "max_offset": self.end, "offsets_only": True}
                self.state.observe(Pull(None, None, queue_id, at(self.now), **offsets))  # type: ignore[arg-type]  # by name
        return said


@pytest.mark.parametrize("reported", [POP, SERVER_REBALANCE, BROADCASTING], ids=str)
def test_a_group_without_shares_is_offline_when_its_last_member_left(reported: dict[str, object]) -> None:
    group = Unshared(**reported)
    assert group.live(600) == []
    assert set(group.verdicts().values()) == {NOT_JUDGED}
    group.leave("h1:1")
    assert group.live(900, told=False) == [(685, "group_offline", "FIRING", "group_offline")]
    assert 595 <= (group.state.incidents["group_offline"].started_at_ms - at(0)) / 1000 <= 605
    group.join("h1:2", "b@7")
    assert (group.live(1_200)[0])[1:] == ("group_offline", "RESOLVED", "group_offline")


@pytest.mark.parametrize(("seconds", "is_offline"), [(ASSIGNED_MS // 1000 + 20, True), (60, False)])
def test_what_was_read_by_assign_for_minutes_is_offline_and_a_short_look_is_not(
    seconds: int, *, is_offline: bool
) -> None:
    group = Life(queues=2)
    group.start("h1:1", "a@7", 0, 1, topics=())
    group.run(seconds)
    group.leave("h1:1")
    assert [row[1:] for row in group.run(seconds + 600)] == [("group_offline", "FIRING", "group_offline")] * is_offline


def test_a_group_of_rocketmqs_own_is_never_offline() -> None:
    group = Unshared(**BROADCASTING)
    group.state.consumer_group = "CID_DefaultHeartBeatSyncerTopic"
    group.live(600)
    group.leave("h1:1")
    assert group.live(1_200, told=False) == []


@pytest.mark.parametrize("reported", [POP, SERVER_REBALANCE], ids=str)
def test_a_commit_that_stands_still_while_messages_wait_starves_its_queue_without_a_client(
    reported: dict[str, object],
) -> None:
    group = Unshared(**reported)
    group.live(300)
    assert group.live(900, consumes=False) == [(535, "starved_queue", "FIRING", "consume_stopped")]
    starved = group.state.incidents["starved_queue orders"]
    assert (starved.severity, starved.client_id, starved.queues) == ("critical", None, ("broker-a:0", "broker-a:1"))
    assert starved.started_at_ms == at(310)
    assert "no member of the group takes more messages from them" in starved.text.summary
    assert "None" not in f"{starved.text.summary} {starved.text.advice}"
    assert set(group.verdicts().values()) == {NOT_CONSUMED}
    assert [row[1:] for row in group.live(1_200)] == [("starved_queue", "RESOLVED", "consume_stopped")]


def test_what_waited_while_the_group_was_offline_does_not_count_when_it_is_back() -> None:
    group = Unshared(**POP)
    group.live(300)
    group.leave("h1:1")
    assert [row[1] for row in group.live(3_600, consumes=False)] == ["group_offline"]  # though offsets are reported
    group.join("h1:2", "b@7")
    assert [row[1:3] for row in group.live(3_810, consumes=False)] == [("group_offline", "RESOLVED")]
    assert [row[1] for row in group.live(4_000, consumes=False)] == ["starved_queue"]


def test_a_group_that_stood_still_and_goes_offline_is_reported_as_offline() -> None:
    group = Unshared(**POP)
    group.live(300)
    group.live(900, consumes=False)
    group.leave("h1:1")
    assert [row[1:] for row in group.live(1_200, told=False)] == [
        ("group_offline", "FIRING", "group_offline"),
        ("starved_queue", "FIRING", "consume_stopped"),  # explained by the other from now on
    ]
    assert group.state.incidents["starved_queue orders"].inhibited_by is not None


def test_offsets_that_broadcasting_clients_left_at_the_broker_say_nothing() -> None:
    group = Unshared(**BROADCASTING)
    assert group.live(3_600, consumes=False) == []


def test_offsets_that_assign_left_at_the_broker_say_nothing_until_they_were_seen_to_move() -> None:
    group = Life(queues=1)
    group.start("h1:1", "a@7", 0, topics=())
    group.pulls = {"commit_offset": 500}
    said = []
    for end in range(1_000, 300_000, 1_000):
        group.pulls = {"commit_offset": 500, "max_offset": end}
        said += group.run(group.now + 10)
    assert said == []
    group.pulls = {"commit_offset": 299_000, "max_offset": 299_000}
    group.run(group.now + 10)
    for end in range(300_000, 400_000, 1_000):
        group.pulls = {"commit_offset": 299_000, "max_offset": end}
        said += group.run(group.now + 10)
    assert [row[1:] for row in said] == [("starved_queue", "FIRING", "consume_stopped")]


def test_the_revive_log_that_nobody_reads_starves_like_any_queue_and_is_never_offline() -> None:
    broker = Unshared()
    broker.state = GroupState("DefaultCluster", REVIVE_GROUP, at(0))
    broker.clients.clear()
    assert broker.live(90_000 // 10) == []
    assert {queue_state.reason for queue_state in broker.state.topics["orders"].queues.values()} == {"broker"}
    assert [row[1:] for row in broker.live(10_000, consumes=False)] == [("starved_queue", "FIRING", "consume_stopped")]
    assert "PopReviveService" in broker.state.incidents["starved_queue orders"].text.summary
    assert [row[1:] for row in broker.live(10_500)] == [("starved_queue", "RESOLVED", "consume_stopped")]


def test_a_member_whose_server_rebalance_is_answered_late_is_judged_no_more() -> None:
    group = Unshared()
    group.live(60)
    assert group.state.topics["orders"].is_shared
    group.reported["h1:1"]["client_rebalance"] = False
    group.live(120)
    queues = group.state.topics["orders"].queues.values()
    assert {(one.verdict, one.reason, one.share.owner) for one in queues} == {(NOT_JUDGED, "server_rebalance", None)}
    group.reported["h1:1"]["client_rebalance"] = True
    group.live(180)
    assert {one.share.owner for one in queues} == {"a@7"}


def test_an_idle_group_is_quiet() -> None:
    group = Unshared(**POP)
    group.live(300)
    assert group.live(7_200, come=0) == []
    assert group.live(7_400) == []


def test_grpc_clients_are_known_by_their_client_id() -> None:
    group = Unshared(client_id=GRPC_ID)
    group.live(600)
    assert {queue_state.reason for queue_state in group.state.topics["orders"].queues.values()} == {"grpc"}
    group.leave("h1:1")
    assert group.live(900, told=False) == [(685, "group_offline", "FIRING", "group_offline")]
