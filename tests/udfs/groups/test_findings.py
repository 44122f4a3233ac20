"""Each finding of a group through time: what happens, what is said and when, and the nearest innocent case."""

import pytest

from tests.udfs.groups.facts import BOTH, A, B, C, ConsumerData, Life, Subscription, at, names, route_of, two_clients
from udfs.alerts.alert import Incident
from udfs.brokers.broker_coverage import BrokerCoverage


def page(life: Life) -> Incident:
    """The one incident that pages."""
    (found,) = [one for one in life.state.incidents.values() if not one.inhibited_by and one.severity != "info"]
    return found


# Causes of a starved queue.


@pytest.mark.parametrize("does_tell", [True, False])
def test_mixed_strategies_starve_what_neither_takes(does_tell: bool) -> None:
    """8 queues: A by AVG takes 0-3, B by AVG_BY_CIRCLE 1,3,5,7, so 4 and 6 are nobody's and 1 and 3 doubled."""
    life = Life()
    life.start("h1:1", A, 0, 1, 2, 3, strategy="AVG" if does_tell else None)
    life.start("h2:1", B, 1, 3, 5, 7, strategy="AVG_BY_CIRCLE" if does_tell else None)
    said = [row for row in life.run(300) if row[1] == "starved_queue"]
    assert [row[1:] for row in said] == [("starved_queue", "FIRING", "mixed_strategy")]
    assert said[0][0] <= 90
    starved, doubled = (life.state.incidents[f"{kind} orders"] for kind in ("starved_queue", "double_consumed_queue"))
    assert (starved.queues, doubled.queues, doubled.cause) == (names(4, 6), names(1, 3), "mixed_strategy")
    assert starved.evidence["strategies"] == {"AVG": [A], "AVG_BY_CIRCLE": [B]}


def test_a_strategy_that_nobody_reports_is_inferred_from_the_pulls_and_is_no_trouble() -> None:
    life = Life()
    life.start("h1:1", A, 0, 2, 4, 6)
    life.start("h2:1", B, 1, 3, 5, 7)
    assert life.run(600) == []
    assert set(life.verdicts().values()) == {"OK"}


def test_a_member_of_another_sdk_takes_queues_that_no_strategy_gives_it() -> None:
    life = Life()
    life.start("h1:1", A, 0, 1, 2, 3)
    life.start("h2:1", B, 0, 5)
    life.run(300)
    starved = life.state.incidents["starved_queue orders"]
    assert (starved.cause, starved.queues) == ("mixed_strategy", names(4, 6, 7))
    assert starved.evidence["strategies"] == {"AVG": [A], "?": [B]}


def test_a_client_with_the_old_route_starves_the_queues_it_does_not_know() -> None:
    """From 8 queues to 12: by the new route A has 0-5 and B 6-11; A goes on with 0-3."""
    life = two_clients()
    life.route = route_of(("broker-a", 12, 12, 6))
    life.state.is_stale = True
    life.take("h2:1", *range(6, 12))
    assert [row for row in life.run(400) if row[1] == "starved_queue"] == [
        (205, "starved_queue", "FIRING", "stale_route")
    ]
    assert (page(life).queues, page(life).client_id) == (names(4, 5), A)


def test_a_client_of_another_view_starves_queues_and_the_split_is_the_page() -> None:
    """broker-b does not list C. A and C work from broker-a's list of three, B from broker-b's of two."""
    life = Life(brokers=BOTH)
    life.route = route_of(("broker-a", 12, 12, 6), ("broker-b", 0, 0, 6))
    life.start("h1:1", A, *range(4))
    life.cut.add(("h3:1", "broker-b"))
    life.start("h2:1", B, *range(6, 12))
    life.start("h3:1", C, *range(8, 12))
    life.run(300)
    assert (page(life).kind, page(life).severity, page(life).queues) == ("split_view", "critical", names(4, 5))
    starved = life.state.incidents["starved_queue orders"]
    assert (starved.cause, starved.queues, starved.inhibited_by) == (
        "split_view",
        names(4, 5),
        page(life).incident_id,
    )


def test_refused_pulls_consume_nothing_and_name_the_cause() -> None:
    life = two_clients()
    life.pulls = {"pull_status": "NO_PERMISSION"}
    assert life.run(300) == [(165, "starved_queue", "FIRING", "consume_disabled")]
    assert page(life).queues == names(*range(8))
    life.pulls = {}
    assert [row[2] for row in life.run(320)] == ["RESOLVED"]


@pytest.mark.parametrize("queues", [("broker-a", 8, 12, 6), ("broker-a", 12, 12, 2)])
def test_queues_that_are_written_and_not_read_are_nobodys_by_the_route(queues: tuple[str, int, int, int]) -> None:
    life = two_clients()
    life.route, life.state.is_stale = route_of(queues), True
    if queues[3] == 2:
        life.take("h1:1")
        life.take("h2:1")
    said = life.run(300)
    assert [row[1:] for row in said] == [("starved_queue", "FIRING", "write_only_queue")]
    assert page(life).severity == "warning"
    assert page(life).queues == (names(*range(8, 12)) if queues[3] == 6 else names(*range(12)))


def test_queues_that_nobody_may_read_starve_though_their_old_holders_ask_on() -> None:
    """With no queue left to allocate the strategy raises, and each consumer keeps what it had and is refused."""
    life = two_clients()
    life.run(100)
    life.route, life.state.is_stale = route_of(("broker-a", 8, 8, 2)), True
    said = life.run(300)
    assert [row[1:] for row in said] == [("starved_queue", "FIRING", "write_only_queue")]
    assert page(life).queues == names(*range(8))


def test_an_ordered_consumer_that_pulls_other_queues_has_not_the_lock() -> None:
    life = two_clients(consume_orderly=True)
    life.take("h2:1", 4, 5, 6)
    assert [row for row in life.run(300) if row[1] == "starved_queue"] == [
        (200, "starved_queue", "FIRING", "order_lock")
    ]
    assert (page(life).queues, page(life).client_id) == (names(7), B)


def test_an_ordered_consumer_that_pulls_nothing_has_stopped() -> None:
    life = two_clients(consume_orderly=True)
    life.take("h2:1")
    life.run(300)
    assert page(life).cause == "pull_stopped"


def test_a_queue_of_a_known_owner_is_not_a_gap_of_its_unknown_strategy() -> None:
    life = two_clients(strategy="MACHINE_ROOM")
    life.take("h2:1", 4, 5, 6)
    life.run(400)
    assert (page(life).cause, page(life).queues, page(life).client_id) == ("pull_stopped", names(7), B)


# Findings of their own kind.


def test_a_split_view_without_starved_queues_warns_and_ends_when_the_lists_agree() -> None:
    life = Life(brokers=BOTH, queues=2)
    life.cut.add(("h2:1", "broker-b"))
    life.start("h1:1", A, "broker-a:0", "broker-a:1")
    life.start("h2:1", B, "broker-b:0", "broker-b:1")
    assert life.run(300) == [(85, "split_view", "FIRING", "split_view")]
    assert (page(life).severity, page(life).evidence["missing"]) == ("warning", {"broker-b": [B]})
    life.cut.clear()
    assert [row[1:3] for row in life.run(340)] == [("split_view", "RESOLVED")]


def test_a_broker_that_is_not_heard_lists_nobody_and_splits_nothing() -> None:
    life = Life(brokers=BOTH, queues=2)
    life.cut |= {("h1:1", "broker-b"), ("h2:1", "broker-b")}
    life.start("h1:1", A, 0, 1)
    life.start("h2:1", B, "broker-b:0", "broker-b:1")
    assert life.run(300) == []
    life.broker_coverage = BrokerCoverage(answered=frozenset(BOTH))
    assert [row[1:] for row in life.run(400)] == [("split_view", "FIRING", "split_view")]


def test_a_client_that_is_cut_off_from_one_broker_is_reported_when_its_heartbeats_there_are_late() -> None:
    """B goes on at broker-a. Its queues at broker-b have nobody from now on, and broker-b lists it for 120 s."""
    life = Life(brokers=BOTH, queues=2)
    life.start("h1:1", A, "broker-a:0", "broker-a:1")
    life.start("h2:1", B, "broker-b:0", "broker-b:1")
    assert life.run(120) == []
    life.cut.add(("h2:1", "broker-b"))
    life.take("h2:1")
    assert life.run(230) == [
        (190, "split_view", "FIRING", "split_view"),
        (190, "starved_queue", "FIRING", "split_view"),
    ]
    assert (page(life).kind, page(life).severity) == ("split_view", "critical")
    assert page(life).queues == ("broker-b:0", "broker-b:1")


def test_the_queues_of_an_owner_that_their_broker_does_not_list_are_lost_to_the_split() -> None:
    """B is listed by broker-a only. By that list it has broker-a:2 and broker-b:0, and reaches the former alone."""
    life = Life(brokers=BOTH)
    life.route = route_of(("broker-a", 3, 3, 6), ("broker-b", 3, 3, 6))
    life.start("h1:1", A, "broker-a:0", "broker-a:1")
    life.cut.add(("h2:1", "broker-b"))
    life.start("h2:1", B, "broker-a:2")
    life.start("h3:1", C, "broker-b:1", "broker-b:2")
    life.run(300)
    assert (page(life).kind, page(life).queues) == ("split_view", ("broker-b:0",))
    starved = life.state.incidents["starved_queue orders"]
    assert (starved.cause, starved.client_id, starved.queues) == ("split_view", B, ("broker-b:0",))


def test_a_broker_that_nobody_is_heard_from_cuts_nobody_off() -> None:
    life = Life(brokers=BOTH, queues=2)
    life.start("h1:1", A, "broker-a:0", "broker-a:1")
    life.start("h2:1", B)
    life.run(120)
    life.cut |= {("h1:1", "broker-b"), ("h2:1", "broker-b")}
    assert [row for row in life.run(230) if row[1] == "split_view"] == []


def test_a_group_that_never_pulls_starves_where_the_broker_reports_the_pulls_of_others() -> None:
    life = Life()
    life.start("h1:1", A, strategy="CONSISTENT_HASH")
    life.start("h2:1", B, strategy="CONSISTENT_HASH")
    assert life.run(300) == []
    life.broker_coverage = BrokerCoverage(pulled_ms={"broker-a": at(310)})
    said = life.run(500)
    assert (389 < said[0][0] < 400, said[0][1:]) == (True, ("starved_queue", "FIRING", "strategy_gap"))
    assert page(life).queues == names(*range(8))


def test_members_with_different_expressions_are_inconsistent() -> None:
    life = Life()
    life.start("h1:1", A, 0, 1, 2, 3)
    life.start("h2:1", B, 4, 5, 6, 7, consumer=ConsumerData((Subscription("orders", "paid || shipped"),)))
    assert life.run(300) == [(85, "inconsistent_subscription", "FIRING", "inconsistent_subscription")]
    assert (page(life).client_id, page(life).severity) == (B, "warning")
    assert "orders (TAG paid || shipped instead of TAG *)" in page(life).text.summary


def test_twins_that_are_doubled_are_one_page() -> None:
    life = two_clients()
    life.start("h3:1", A, 0, 1, 2)
    life.take("h1:1", 0, 1, 2)
    life.take("h2:1", 6, 7)
    life.run(400)
    assert page(life).kind == "duplicate_client_id"
    assert life.state.incidents["double_consumed_queue orders"].inhibited_by == page(life).incident_id


def test_a_hand_over_is_not_doubled() -> None:
    life = two_clients()
    life.take("h1:1", *range(8))
    life.run(140)
    life.take("h2:1", 4, 5, 6)  # a minute late, it lets one queue go
    life.run(160)
    assert "DOUBLE_CONSUMED" not in life.verdicts().values()


@pytest.mark.parametrize(("until_s", "fires"), [(172, False), (400, True)])
def test_clients_that_poll_a_new_route_at_different_times_are_not_doubled(until_s: int, fires: bool) -> None:
    """At 100 s a topic is recreated. By its old route A has 0 and 1 of the new queues until it polls the new one."""
    life = two_clients()
    life.run(100)
    life.route, life.state.is_stale = route_of(("broker-a", 4, 4, 6)), True
    life.take("h1:1", 0, 1)
    life.take("h2:1", 0, 1, 2, 3)
    said = life.run(until_s)
    life.take("h2:1", 2, 3)
    said = [row[1:3] for row in [*said, *life.run(420)] if row[1] == "double_consumed_queue"]
    assert said[:1] == ([("double_consumed_queue", "FIRING")] if fires else [])


def test_a_slave_that_serves_is_reported_with_the_reason() -> None:
    life = two_clients()
    life.pulls = {"broker_id": 1, "suggest_broker_id": 1}
    assert life.run(300) == [(160, "slave_read", "FIRING", "master_busy")]
    life.route, life.state.is_stale = route_of(("broker-a", 8, 8, 6), masterless=("broker-a",)), True
    assert life.run(330) == [(305, "slave_read", "FIRING", "master_down")]
    life.pulls = {}
    assert life.run(360) == [(340, "slave_read", "RESOLVED", "master_down")]


def test_queues_that_no_slave_serves_are_their_missing_masters() -> None:
    """A slave without slaveReadEnable, as is the default, refuses every pull."""
    life = two_clients()
    life.run(120)
    life.route, life.state.is_stale = route_of(("broker-a", 8, 8, 6), masterless=("broker-a",)), True
    life.broker_coverage = BrokerCoverage(masterless={"broker-a": "the master's"})
    life.take("h1:1")
    life.take("h2:1")
    life.run(400)
    starved = life.state.incidents["starved_queue orders"]
    assert (starved.cause, starved.inhibited_by) == ("pull_stopped", "the master's")


def test_a_committed_offset_that_goes_back_is_reported_until_it_has_come_again() -> None:
    life = two_clients()
    life.pulls = {"commit_offset": 5000, "max_offset": 6000}
    assert life.run(140) == []
    life.pulls = {"commit_offset": 3000, "max_offset": 6000}
    assert life.run(200) == [(150, "offset_regression", "FIRING", "offset_regression")]
    assert (page(life).evidence["consumed_again"]["broker-a:0"], page(life).severity) == (2000, "warning")
    life.pulls = {"commit_offset": 5001, "max_offset": 6000}
    assert life.run(220) == [(210, "offset_regression", "RESOLVED", "offset_regression")]


def test_an_offset_that_twins_commit_by_turns_has_not_gone_back() -> None:
    life = two_clients()
    life.start("h3:1", A, 0, 1, 2)
    for second in range(130, 300, 10):
        life.pulls = {"commit_offset": 100 + second % 20}
        life.run(second)
    life.pulls = {}
    watches = life.state.topics["orders"].queues
    assert {(odd := watches[name].anomaly) and odd.regressed_ms for name in names(0, 1, 2)} == {None}
    assert all((odd := watches[name].anomaly) and odd.turns >= 4 for name in names(0, 1, 2))


@pytest.mark.parametrize("how", ["no master", "without data", "gone from the route"])
def test_an_ordered_topic_is_at_risk_while_a_broker_is_down(how: str) -> None:
    life = Life(brokers=BOTH)
    both = (("broker-a", 2, 2, 6), ("broker-b", 2, 2, 6))
    life.route = route_of(*both, order_topic=True)
    life.start("h1:1", A, "broker-a:0", "broker-a:1", "broker-b:0", "broker-b:1")
    assert life.run(120) == []
    if how == "no master":
        life.route = route_of(*both, order_topic=True, masterless=("broker-b",))
    elif how == "without data":
        life.broker_coverage = BrokerCoverage(frozenset({"broker-b"}))
    else:
        life.route = route_of(both[0], order_topic=True)
    life.state.is_stale = True
    cause = {"no master": "master_down", "without data": "broker_down", "gone from the route": "queues_lost"}[how]
    assert life.run(160) == [
        (155, "order_at_risk", "FIRING", cause),
    ]
    assert page(life).broker_name == "broker-b"


def test_container_ids_on_two_hosts_are_at_risk_before_they_collide() -> None:
    life = Life()
    life.start("10.20.0.11:1", "172.17.0.2@7", 0, 1, 2, 3)
    life.start("10.20.0.12:1", "172.17.0.3@7", 4, 5, 6, 7)
    assert life.run(300) == [(85, "client_id_at_risk", "FIRING", "client_id_at_risk")]
    (incident,) = life.state.incidents.values()
    assert incident.severity == "info"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("10.20.0.11:1", "10.20.0.11@7"), ("10.20.0.12:1", "10.20.0.12@7")),  # the hosts' own addresses
        (("10.20.0.11:1", "172.17.0.2@7"), ("10.20.0.11:2", "172.17.0.3@7")),  # one Docker gives each its own
        (("10.20.0.11:1", "172.17.0.2@7#81203344"), ("10.20.0.12:1", "172.17.0.3@7#81203359")),  # nanoTime
    ],
)
def test_ids_that_cannot_collide_are_not_at_risk(one: tuple[str, str], other: tuple[str, str]) -> None:
    life = Life()
    life.start(*one, 0, 1, 2, 3)
    life.start(*other, 4, 5, 6, 7)
    assert life.run(300) == []
