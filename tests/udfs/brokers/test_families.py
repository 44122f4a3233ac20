"""Groups with a name of their own for each process: a replaced one is no loss, and a lost one is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.udfs.groups.facts import Life, at
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.brokers.families import BIRTH_MS, FORGET_MS, MOST_SIBLINGS, Families, Family, family_of
from udfs.groups.state import GroupState
from udfs.groups.verdict_reason import REPLACED
from udfs.rocketmq.route import QueueData, Route

OLD, NEW, OTHER = "cache-7d9f8c6b5-x2k9z", "cache-84cdbf7f9-pq7rt", "cache-7d9f8c6b5-bb4wl"

NAMES = [
    ("cache-7d9f8c6b5-x2k9z", "cache-#-#"),  # a Deployment's pod
    ("cache-7d9f8c6b5-bcdfg", "cache-#-#"),  # its last part may have no digit
    ("cache_10_0_0_12", "cache_#"),
    ("cache-192-168-10-7_invalidate", "cache-#_invalidate"),
    ("cache_3f2a9c1e-1b2c-4d5e-8f90-0123456789ab", "cache_#"),
    ("cache%3f2a9c1e1b2c4d5e8f900123456789ab", "cache%#"),
    ("cache-deadbeef0", "cache-#"),  # a container's id, cut
    ("cache-7d9f", "cache-#"),
    ("cache_81203344120019", "cache_#"),  # nanoTime
    ("orders_1", "orders_%"),
    ("orders_v2", "orders_v%"),
    ("order2-service", "order%-service"),
    ("order-service", None),
    ("app-0", "app-%"),  # a StatefulSet's pod comes back under its name
    ("CID_2024", "CID_%"),
]


@pytest.mark.parametrize(("name", "family"), NAMES)
def test_only_what_nobody_writes_by_hand_makes_a_family(name: str, family: str | None) -> None:
    assert family_of(name) == family


def families(*heard: tuple[str, float]) -> Families:
    """Groups that gave data at these seconds, and one of the family from 0 s on."""
    found = Families()
    for second in range(0, 1_000, 30):
        found.note(OTHER, at(second))
    for name, second in heard:
        found.note(name, at(second))
    return found


# Why; the group that gave data and when; when the old one was left; whether that is a birth.
BIRTHS = [
    ("nothing was born", OLD, 0, 1_000, False),
    ("shortly before", NEW, 900, 1_000, True),
    ("shortly after", NEW, 1_060, 1_000, True),
    ("long before", NEW, 300, 1_000, False),
    ("long after", NEW, 1_700, 1_000, False),
    ("the group itself", OLD, 990, 1_000, False),
    ("another family's", "other-84cdbf7f9-pq7rt", 990, 1_000, False),
    ("two heartbeats after the monitor begins", NEW, 70, 90, True),
    ("heard when the monitor begins", NEW, 40, 100, False),
]


@pytest.mark.parametrize(("why", "name", "born", "left", "is_birth"), BIRTHS, ids=[row[0] for row in BIRTHS])
def test_a_birth_is_of_a_sibling_about_when_the_group_is_left(
    why: str, name: str, born: int, left: int, is_birth: bool
) -> None:
    assert families((name, born)).has_birth(OLD, at(left)) is is_birth, why


@pytest.mark.parametrize(("siblings", "is_birth"), [(2, False), (8, True)])
def test_numbered_groups_are_a_family_where_they_are_many(siblings: int, is_birth: bool) -> None:
    """Two that people have named may be switched by hand; pods come by the dozen."""
    found = Families()
    for number in range(siblings):
        found.note(f"cache-{number}", at(0))
    found.note(f"cache-{siblings}", at(900))
    assert found.has_birth("cache-0", at(1_000)) is is_birth
    assert not found.has_birth("cache-0", at(5_000))


def test_roll_outs_one_after_another_keep_seeing_births() -> None:
    """More groups within an hour than are kept; those that are gone make room."""
    found = Families()
    for roll_out in range(4):
        for number in range(MOST_SIBLINGS // 2):
            found.note(f"cache-{roll_out}a{number:05d}", at(1_000 * roll_out))
    assert found.has_birth("cache-2a00001", at(3_010))
    assert len(found.by_name["cache-#"].heard_ms) <= MOST_SIBLINGS


def test_families_are_bounded_and_forgotten() -> None:
    found = Families()
    for number in range(MOST_SIBLINGS + 10):
        found.note(f"cache-{number:06d}", at(0))
    assert len(found.by_name["cache-#"].heard_ms) == MOST_SIBLINGS
    found.forget(at(0) + FORGET_MS)
    assert found.by_name == {}


def rolled(name: str, *heard: tuple[str, float]) -> tuple[Life, list[tuple[float, str, str, str]]]:
    """A group of one process that stops at 1,000 s, and what is said until 1,400 s."""
    life = Life(state=GroupState("DefaultCluster", name, at(0)))
    life.start("h1:1", "a@7", *range(8))
    life.run(1_000)
    life.broker_coverage = BrokerCoverage(families=families(*heard))
    life.leave("h1:1")
    return life, life.run(1_400)


@pytest.mark.parametrize("born", [700, 990, 1_020, 1_060])
def test_a_group_whose_process_was_replaced_is_no_page_and_not_starved(born: float) -> None:
    life, said = rolled(OLD, (NEW, born))
    assert said == []
    watches = life.state.topics["orders"].queues.values()
    assert {(cluster_state.verdict, cluster_state.reason) for cluster_state in watches} == {("NOT_JUDGED", REPLACED)}


@pytest.mark.parametrize(
    ("name", "heard"),
    [
        (OLD, ()),  # nothing was born
        ("orders_1", (("orders_3", 990.0),)),  # no family
        (OLD, (("shop-84cdbf7f9-pq7rt", 990.0),)),  # another family's
    ],
)
def test_a_process_that_is_lost_is_reported(name: str, heard: tuple[tuple[str, float], ...]) -> None:
    _, said = rolled(name, *heard)
    assert ("group_offline", "FIRING") in [row[1:3] for row in said]


def test_a_group_of_several_members_is_no_process_of_its_own() -> None:
    life = Life(state=GroupState("DefaultCluster", OLD, at(0)))
    life.start("h1:1", "a@7", *range(4))
    life.start("h2:1", "b@7", *range(4, 8))
    life.run(1_000)
    life.broker_coverage = BrokerCoverage(families=families((NEW, 990)))
    life.leave("h1:1")
    life.leave("h2:1")
    assert ("group_offline", "FIRING") in [row[1:3] for row in life.run(1_400)]


def test_a_replaced_group_that_comes_back_is_judged_again() -> None:
    life, _ = rolled(OLD, (NEW, 990))
    life.start("h1:2", "a@7", *range(8))
    life.run(1_500)
    assert set(life.verdicts().values()) == {"OK"}


def test_a_process_that_is_replaced_while_a_broker_is_down_is_replaced_though_that_one_lists_it_still() -> None:
    """No route names the broker any more, and nobody could tell it good-bye."""
    life = Life(state=GroupState("DefaultCluster", OLD, at(0)), brokers=("broker-a", "broker-b"))
    life.start("h1:1", "a@7", *(f"broker-a:{number}" for number in range(8)))
    life.run(1_000)
    life.route = Route("orders", (QueueData("broker-a", 8, 8, 6),), at(1_000))
    life.state.is_stale = True
    life.broker_coverage = BrokerCoverage(families=families((NEW, 995)))
    life.freeze("h1:1")
    life.state.membership.unregister("broker-a", "h1:1", at(1_004))
    assert life.run(1_400) == []


def test_a_process_that_is_replaced_while_a_broker_is_dead_is_no_page() -> None:
    """The broker cannot know that it left."""
    both = ("broker-a", "broker-b")
    life = Life(state=GroupState("DefaultCluster", OLD, at(0)), brokers=both, queues=2)
    life.covers(answered=frozenset(both))
    life.start("h1:1", "a@7", *(f"{broker}:{number}" for broker in both for number in (0, 1)))
    life.run(200)
    life.cut.add(("h1:1", "broker-b"))
    life.leave("h1:1")
    dead = {"without_data": frozenset({"broker-b"}), "answered": frozenset({"broker-a"})}
    life.covers(**dead, families=families((NEW, 190)))
    assert life.run(600) == []
    assert life.state.membership.is_empty()


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3 * BIRTH_MS)), max_size=40))
def test_a_full_family_keeps_whom_it_would_keep_if_each_that_comes_made_it_look_for_room(
    heard: list[tuple[int, int]],
) -> None:
    family, kept = Family(0), {}
    for number, time_ms in heard:
        name = f"g{number}"
        if name in kept:
            kept[name] = (min(kept[name][0], time_ms), max(kept[name][1], time_ms))
            family.heard_ms[name] = kept[name]
            continue
        if len(kept) >= 3:
            kept = {one: ms for one, ms in kept.items() if ms[1] + BIRTH_MS > time_ms}
        if has_room := len(kept) < 3:
            kept[name] = (time_ms, time_ms)
        assert family.welcome(name, time_ms, most=3) == has_room
        assert family.heard_ms == kept
