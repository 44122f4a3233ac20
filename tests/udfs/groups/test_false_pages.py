"""Ordinary situations that look like trouble, and incidents that must not stay for ever."""

from tests.udfs.groups.facts import BOTH, A, B, C, Life, at, route
from udfs.alerts.rules import FORGET_GROUP_MS
from udfs.brokers.broker_coverage import BrokerCoverage


def states(life: Life) -> list[tuple[str, str]]:
    return [(row.incident.kind, row.state) for _, outcome in life.outcomes for row in outcome.transitions]


def test_a_member_of_a_strategy_that_only_one_broker_lists_breaks_nothing() -> None:
    life = Life(brokers=BOTH)
    life.route = route(4, *BOTH)
    life.cut |= {("h3:1", "broker-b"), ("h4:1", "broker-b"), ("h2:1", "broker-a")}
    life.start("h1:1", A, "broker-a:0", "broker-a:1")
    life.start("h2:1", B, "broker-b:0", strategy="MACHINE_ROOM_NEARBY-AVG")
    life.start("h3:1", C, "broker-a:2")
    life.start("h4:1", "d@7", "broker-b:2")
    life.run(400)
    assert ("split_view", "FIRING") in states(life)


def test_agents_that_come_broker_by_broker_do_not_starve_the_brokers_that_come_later() -> None:
    """Heartbeats from both brokers; pulls of broker-a are told from 600 s on, of broker-b later."""
    life = Life(brokers=BOTH, queues=2)
    life.start("h1:1", A)
    life.start("h2:1", B)
    assert life.run(600) == []
    life.take("h1:1", "broker-a:0", "broker-a:1")
    assert life.run(900) == []
    assert {
        queue_state.verdict for name, queue_state in life.state.topics["orders"].queues.items() if "broker-b" in name
    } == {"UNKNOWN"}
    life.take("h2:1", "broker-b:0", "broker-b:1")
    assert life.run(1000) == []


def test_members_that_never_describe_their_pulls_are_unknown_beside_those_that_do() -> None:
    """Through the collector, a LitePull consumer before 5.1.1 answers no queues: empty is not starved."""
    life = Life()
    life.start("h1:1", A)
    life.start("h2:1", B)
    life.run(600)
    life.take("h1:1", 0, 1, 2, 3)
    assert life.run(1200) == []
    assert [life.verdicts()[queue] for queue in (0, 4)] == ["OK", "UNKNOWN"]


def test_a_broker_that_no_agent_reports_of_any_more_splits_no_view() -> None:
    """It restarts for 100 s; nobody was asked, so nobody answered."""
    life = Life(brokers=BOTH, queues=2)
    life.start("h1:1", A, "broker-a:0", "broker-a:1")
    life.start("h2:1", B)
    life.run(120)
    life.cut |= {("h1:1", "broker-b"), ("h2:1", "broker-b")}
    life.run(220)
    life.cut.clear()
    life.run(400)
    assert "split_view" not in {kind for kind, _ in states(life)}


def test_a_broker_that_leaves_the_route_and_still_answers_splits_no_view() -> None:
    life = Life(brokers=BOTH, queues=2)
    life.broker_coverage = BrokerCoverage(answered=frozenset(BOTH))
    life.start("h1:1", A, "broker-a:0", "broker-a:1")
    life.start("h2:1", B, "broker-b:0", "broker-b:1")
    life.run(120)
    life.route, life.state.is_stale = route(2), True
    life.cut |= {("h1:1", "broker-b"), ("h2:1", "broker-b")}
    life.take("h1:1", "broker-a:0")
    life.take("h2:1", "broker-a:1")
    life.run(500)
    assert "split_view" not in {kind for kind, _ in states(life)}


def test_a_starvation_ends_when_the_group_is_not_judged_any_more() -> None:
    life = Life()
    life.start("h1:1", A, 0, 1, 2, 3)
    life.start("h2:1", B)
    life.broker_coverage = BrokerCoverage(pulled_ms={"broker-a": at(0)})
    life.run(300)
    assert ("starved_queue", "FIRING") in states(life)
    for addr in ("h1:1", "h2:1"):
        life.leave(addr)
    life.start("h1:2", A, client_rebalance=False, consume_type="CONSUME_POP")
    life.start("h2:2", B, client_rebalance=False, consume_type="CONSUME_POP")
    life.run(500)
    assert life.state.incidents == {}


def test_a_group_that_is_offline_for_a_day_is_given_up_and_forgotten() -> None:
    life = Life()
    life.start("h1:1", A, *range(8))
    life.run(120)
    life.leave("h1:1")
    life.run(400)
    assert {kind for kind, _ in states(life)} == {"group_offline", "starved_queue"}
    due_ms = life.outcomes[-1][1].due_ms
    assert due_ms is not None
    assert due_ms <= at(125) + FORGET_GROUP_MS
    life.now += FORGET_GROUP_MS / 1000
    life.run(life.now + 10)
    assert life.state.incidents == {}
    assert life.state.is_forgotten()


def test_an_ordered_topic_without_members_is_not_at_risk_and_a_new_outage_begins_anew() -> None:
    life = Life(brokers=BOTH)
    life.route = route(2, *BOTH)
    life.start("h1:1", A, "broker-a:0", "broker-a:1", "broker-b:0", "broker-b:1", consume_orderly=True)
    life.run(120)
    life.broker_coverage = BrokerCoverage(frozenset({"broker-b"}))
    life.run(130)
    life.leave("h1:1")
    life.run(300)
    life.broker_coverage = BrokerCoverage()
    life.start("h1:2", A, "broker-a:0", "broker-a:1", "broker-b:0", "broker-b:1", consume_orderly=True)
    life.run(600)
    life.broker_coverage = BrokerCoverage(frozenset({"broker-b"}))
    said = [row for row in life.run(640) if row[1] == "order_at_risk"]
    assert said == [(635, "order_at_risk", "FIRING", "broker_down")]


def test_members_that_come_and_go_do_not_hide_a_gap_of_a_strategy_that_cannot_be_recomputed() -> None:
    life = Life()
    life.start("h1:1", A, 0, 1, 2, 3, strategy="MACHINE_ROOM")
    life.start("h2:1", B, 4, 5, 6, strategy="MACHINE_ROOM")
    said = []
    for turn in range(8):
        life.start(f"h3:{turn}", C, strategy="MACHINE_ROOM")
        said += life.run(life.now + 35)
        life.leave(f"h3:{turn}")
        said += life.run(life.now + 35)
    assert ("starved_queue", "FIRING", "strategy_gap") in {row[1:] for row in said}


def test_a_group_whose_heartbeats_are_reported_no_more_and_that_consumes_is_not_offline() -> None:
    life = Life()
    life.start("h1:1", A, *range(8))
    life.run(120)
    life.cut.add(("h1:1", "broker-a"))
    assert "group_offline" not in {row[1] for row in life.run(600)}
    assert life.state.membership.is_empty()
    life.take("h1:1")
    assert "group_offline" in {row[1] for row in life.run(700)}


def test_a_client_that_came_back_on_another_channel_is_no_twin_of_the_doubled() -> None:
    """Two take a third's queue. It restarts between two looks, and for a while both its channels have pulled lately."""
    life = Life()
    life.start("h1:1", A, 0, 1, 2)
    life.start("h2:1", B, 3, 4, 5)
    life.start("h3:1", C, 6, 7)
    life.run(100)
    life.take("h2:1", 0, 3, 4, 5)
    life.take("h3:1", 0, 6, 7)
    life.run(150)
    life.leave("h1:1")
    life.start("h1:2", A, 0, 1, 2)
    said = life.run(200)
    assert "duplicate_client_id" not in {row[3] for row in said if row[1] == "double_consumed_queue"}
    assert life.verdicts()[0] == "DOUBLE_CONSUMED"
