"""Families of groups with a name of their own for each process; their lives: tests/golden/groups.txt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.udfs.groups.facts import at, families
from udfs.brokers.families import BIRTH_MS, FORGET_MS, MOST_SIBLINGS, Families, Family, family_of

OLD, NEW = "cache-7d9f8c6b5-x2k9z", "cache-84cdbf7f9-pq7rt"

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
