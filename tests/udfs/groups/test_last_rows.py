"""The last row of a queue that is no more, and what is forgotten with its topic."""

from tests.udfs.groups.facts import A, B, Life, fired_kinds, play
from udfs.groups.queue_state import NOT_JUDGED, OwnershipRow
from udfs.groups.verdict_reason import GONE, STATIC_TOPIC
from udfs.rocketmq.route import QueueData, Route


def two_clients(**reported: object) -> Life:
    life = Life()
    life.start("h1:1", A, 0, 1, 2, 3, **reported)
    life.start("h2:1", B, **reported)
    life.run(300)
    return life


def rows_after(life: Life, since: float) -> list[OwnershipRow]:
    return [row for when, outcome in life.outcomes for row in outcome.ownership if when > since]


def test_queues_that_a_topic_has_no_more_get_a_last_row() -> None:
    life = two_clients()
    play(life, "route broker-a:1:1:6; take h1:1 0; to 400")
    newest = {row.queue: row for row in rows_after(life, 300)}
    assert sorted(newest) == [f"broker-a:{number}" for number in range(1, 8)]
    assert {(row.verdict, row.planned_owner, row.reason) for row in newest.values()} == {(NOT_JUDGED, None, GONE)}
    assert len(rows_after(life, 300)) == 7


def test_a_client_that_learns_a_route_late_leaves_no_starved_queue_behind() -> None:
    """Clients ask for routes every 30 s, and pull the queues of a broker that a topic has left until then."""
    life = Life(brokers=("broker-a", "broker-b"))
    play(life, "route broker-a:4:4:6 broker-b:2:2:6; start h1:1 A 0-2; start h2:1 B 3 broker-b:0 broker-b:1; to 400")
    play(life, "route broker-a:4:4:6; to 430; take h1:1 0-1; take h2:1 2-3; to 900")
    assert fired_kinds(life) == set()
    newest = {row.queue: row for row in rows_after(life, 400)}
    assert {(newest[f"broker-b:{number}"].verdict, newest[f"broker-b:{number}"].reason) for number in (0, 1)} == {
        (NOT_JUDGED, GONE)
    }


def test_the_queues_of_a_topic_that_the_group_gave_up_get_a_last_row_and_its_conditions_go() -> None:
    life = two_clients(topics=("orders", "other"))
    life.state.conditions["order_at_risk orders"] = 1
    life.take("h1:1")
    for addr in ("h1:1", "h2:1"):
        life.reported[addr] = {"topics": ("other",)}
    life.run(400)
    rows = rows_after(life, 300)
    assert {row.queue for row in rows} == {f"broker-a:{number}" for number in range(8)}
    assert {(row.topic, row.verdict, row.reason) for row in rows} == {("orders", NOT_JUDGED, GONE)}
    assert [name for name in life.state.conditions if name.endswith("orders")] == []


def test_a_queue_that_comes_back_is_reported_again() -> None:
    life = two_clients()
    play(life, "route broker-a:1:1:6; take h1:1 0; to 320; route broker-a:2:2:6; take h2:1 1; to 340")
    assert [row.verdict for row in rows_after(life, 320) if row.queue == "broker-a:1"] == ["UNKNOWN", "OK"]


def test_a_static_topic_is_not_judged_and_its_queues_are_nobodys() -> None:
    """Its clients hold queues of a broker that is none; another topic's pulls say nothing of them."""
    life = Life()
    life.route = Route("orders", (QueueData("broker-a", 8, 8, 6),), has_queue_mapping=True)
    life.start("h1:1", A, "__syslo__global__:0")
    assert life.run(600) == []
    watches = life.state.topics["orders"].queues
    assert {(queue_state.verdict, queue_state.reason, queue_state.share.owner) for queue_state in watches.values()} == {
        (NOT_JUDGED, STATIC_TOPIC, None)
    }


def test_the_pulls_of_one_topic_do_not_prove_that_those_of_another_would_be_reported() -> None:
    life = Life()
    life.start("h1:1", A, topics=("orders", "normal"))
    while life.now < 600:
        life.pulls = {"topic": "normal"}
        life.take("h1:1", 0, 1)
        assert life.run(life.now + 5) == []
    watches = life.state.topics["orders"].queues.values()
    assert {(queue_state.verdict, queue_state.reason) for queue_state in watches} == {("UNKNOWN", "pulls_not_reported")}
