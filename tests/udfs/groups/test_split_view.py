"""split_view holds for each client of its own: in a roll-out another one is missing at each look."""

import pytest

from tests.udfs.groups.facts import BOTH, Heartbeat, Life, at, fired_kinds, play, subscribes
from udfs.brokers.broker_coverage import BrokerCoverage


def beat(life: Life, number: int, second: float, broker_name: str, **reported: bool) -> None:
    """A heartbeat of client NUMBER, dated by the broker."""
    heartbeat = Heartbeat(f"c{number}@7", f"h{number}:1", at(second), broker_name, **reported)
    life.state.membership.register(heartbeat, subscribes("orders"))


def answered() -> Life:
    return Life(brokers=BOTH, queues=2, broker_coverage=BrokerCoverage(answered=frozenset(BOTH)))


def group(size: int) -> Life:
    life = Life(brokers=BOTH, queues=size)
    for number in range(size):
        life.start(f"h{number}:1", f"c{number}@7", f"broker-a:{number}", f"broker-b:{number}")
    life.run(120)
    return life


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
    assert "split_view" not in fired_kinds(life)


def test_what_is_no_longer_missing_is_not_remembered() -> None:
    life = group(2)
    play(life, "leave h1:1; cut h1:2 broker-b; start h1:2 c1@7 broker-a:1; to 150")
    assert any("split_view" in name for name in life.state.conditions)
    play(life, "heal; to 210")
    assert not any("split_view" in name for name in life.state.conditions)


def test_who_is_only_listed_and_is_listed_nowhere_any_more_is_cut_off_nowhere() -> None:
    """It has left, and nobody said so."""
    life = answered()
    for second in range(0, 400, 10):
        for number in range(2):
            if number or second < 200:
                for name in BOTH:
                    beat(life, number, second, name, is_listed_only=True)
        life.run(second + 10)
    assert "split_view" not in fired_kinds(life)


@pytest.mark.parametrize("behind_s", [20, 40])
def test_a_frozen_client_that_one_broker_heard_a_little_earlier_is_frozen_and_not_cut_off(behind_s: int) -> None:
    """Of the same heartbeat two clocks tell two times; what comes a heartbeat later is another."""
    life = answered()
    life.start("h1:1", "c1@7", "broker-a:1", "broker-b:1")
    for second in range(0, 400, 10):
        for name in BOTH if second <= 200 and second % 30 == 0 else ():
            beat(life, 0, second - (behind_s if name == "broker-b" else 0), name)
        life.run(second + 10)
    assert ("split_view" in fired_kinds(life)) == (behind_s == 40)
