"""split_view holds for each client of its own: in a roll-out another one is missing at each look."""

from tests.udfs.facts import Life

BOTH = ("broker-a", "broker-b")


def group(size: int) -> Life:
    life = Life(brokers=BOTH, queues=size)
    for number in range(size):
        life.start(f"h{number}:1", f"c{number}@7", f"broker-a:{number}", f"broker-b:{number}")
    life.run(120)
    return life


def kinds(life: Life) -> set[str]:
    return {row.incident.kind for _, outcome in life.outcomes for row in outcome.transitions if row.incident.has_fired}


def test_a_roll_out_in_which_each_pod_is_at_one_broker_first_splits_no_view() -> None:
    """Every look finds some client that one broker does not list yet, and never the same for long."""
    life = group(10)
    for number in range(10):
        addr = f"h{number}:1"
        life.leave(addr)
        life.cut.add((f"h{number}:2", "broker-b"))
        life.start(f"h{number}:2", f"c{number}@7", f"broker-a:{number}", f"broker-b:{number}")
        life.run(life.now + 15)
        life.cut.clear()
        life.beat(f"h{number}:2")
    life.run(life.now + 120)
    assert "split_view" not in kinds(life)


def test_one_client_that_stays_missing_is_told_and_named_alone() -> None:
    life = group(4)
    life.leave("h3:1")
    life.cut.add(("h3:2", "broker-b"))
    life.start("h3:2", "c3@7", "broker-a:3")
    began = life.now
    for number in range(3):
        life.leave(f"h{number}:1")
        life.cut.add((f"h{number}:2", "broker-b"))
        life.start(f"h{number}:2", f"c{number}@7", f"broker-a:{number}", f"broker-b:{number}")
        life.run(life.now + 30)
        life.cut.discard((f"h{number}:2", "broker-b"))
        life.beat(f"h{number}:2")
    life.run(life.now + 40)
    incident = life.state.incidents["split_view"]
    assert incident.has_fired
    assert incident.evidence["missing"] == {"broker-b": ["c3@7"]}
    assert incident.started_at_ms - 1_789_000_000_000 <= (began + 5) * 1000


def test_what_is_no_longer_missing_is_not_remembered() -> None:
    life = group(2)
    life.leave("h1:1")
    life.cut.add(("h1:2", "broker-b"))
    life.start("h1:2", "c1@7", "broker-a:1")
    life.run(life.now + 30)
    assert any("split_view" in name for name in life.state.conditions)
    life.cut.clear()
    life.run(life.now + 60)
    assert not any("split_view" in name for name in life.state.conditions)
