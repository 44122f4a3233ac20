"""Which rules a group lives by: the base, then every override that matches, key by key."""

import pickle
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.rules import default_rules, kind_rules
from udfs.alerts import rulebook as module
from udfs.alerts.rulebook import CANARY_CLUSTER, Override, Rulebook
from udfs.alerts.rules import OF_ALL, Rules

names = st.text("abc-%", min_size=1, max_size=6)
patterns = st.one_of(st.just("*"), st.text("abc*?-%", min_size=1, max_size=4))
figures = [one.name for one in fields(Rules) if isinstance(getattr(default_rules(), one.name), int)]
kind_changes = st.dictionaries(st.sampled_from(["pending_ms", "recovering_ms"]), st.integers(0, 9))
overrides = st.builds(
    Override,
    name=st.text("xyz", max_size=3),
    cluster=patterns,
    consumer_group=patterns,
    thresholds=st.dictionaries(st.sampled_from(figures), st.integers(1, 9), max_size=4),
    kinds=st.dictionaries(st.sampled_from([OF_ALL, "starved_queue", "duplicate_client_id"]), kind_changes, max_size=2),
)
books = st.builds(lambda several: Rulebook(default_rules(), several), st.lists(overrides, max_size=5))


def book(*several: Override, base: Rules | None = None) -> Rulebook:
    return Rulebook(base or default_rules(), several)


@given(books, names, names)
def test_a_key_that_why_does_not_name_is_the_bases(of: Rulebook, cluster: str, group: str) -> None:
    rules, why = of.of(cluster, group), of.why(cluster, group)
    assert all(getattr(rules, name) == getattr(of.base, name) for name in figures if name not in why)
    assert all(dict(override.changes())[key] == getattr(rules, key) for key, override in why.items() if "." not in key)


@given(books, overrides, names, names)
def test_the_last_override_that_matches_has_its_way(of: Rulebook, last: Override, cluster: str, group: str) -> None:
    everywhere = Override(last.name, thresholds=last.thresholds, kinds=last.kinds)
    rules = Rulebook(of.base, [*of.overrides, everywhere]).of(cluster, group)
    assert {name: getattr(rules, name) for name in last.thresholds} == last.thresholds
    for kind, values in last.kinds.items():
        assert {name: getattr(rules.of_kind(kind), name) for name in values} == values


@given(books, names, names)
def test_it_pickles_and_says_the_same_afterwards(of: Rulebook, cluster: str, group: str) -> None:
    of.of(cluster, group)
    copy = pickle.loads(pickle.dumps(of))  # noqa: S301  # our own bytes
    assert copy == of
    assert hash(copy) == hash(of)
    assert copy.of(cluster, group) == of.of(cluster, group)


def test_other_rules_have_another_fingerprint() -> None:
    several = [book(), book(base=default_rules(settle_ms=1)), book(Override("o", thresholds={"settle_ms": 1}))]
    assert len({of.fingerprint for of in several}) == 3
    assert book(Override("o")).fingerprint == book(Override("o")).fingerprint


def test_a_group_is_found_once_and_then_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_REMEMBERED", 2)
    of = book(Override("o", consumer_group="a*", thresholds={"settle_ms": 1}))
    assert of.of("c", "a1") is of.of("c", "a2")
    assert [of.of("c", group).settle_ms for group in ("a1", "b", "a3", "a1")] == [1, 80_000, 1, 1]


@pytest.mark.parametrize(
    ("cluster", "group", "matches"),
    [
        ("*", "*", True),
        ("prod*", "bill*", True),
        ("rod", "*", False),
        ("*", "bill?", False),
        ("*", "[a-c]illing", True),
    ],
)
def test_both_patterns_must_match_the_whole_name(cluster: str, group: str, matches: bool) -> None:
    of = book(Override("o", cluster, group, {"settle_ms": 1}))
    assert (of.of("prod", "billing").settle_ms == 1) == matches
    assert ("settle_ms" in of.why("prod", "billing")) == matches


def test_what_is_for_some_groups_leaves_the_brokers_alone() -> None:
    of = book(
        Override("of groups", "prod", "b*", {"settle_ms": 1, "fault_item_idle_ms": 1}),
        Override("of all", "prod", "*", {"broker_evicted_ms": 2}),
    )
    assert (of.of("prod").fault_item_idle_ms, of.of("prod").broker_evicted_ms) == (1_800_000, 2)
    assert set(of.why("prod")) == {"broker_evicted_ms"}
    assert of.of("test") == default_rules()


def test_what_is_set_for_all_kinds_reaches_each_that_does_not_set_it_itself() -> None:
    of = book(Override("o", kinds={OF_ALL: {"is_enabled": False, "recovering_ms": 5}})).of("c", "g")
    assert of.of_kind("starved_queue") == kind_rules(recovering_ms=5, is_enabled=False)
    own = default_rules().of_kind("duplicate_client_id")
    assert of.of_kind("duplicate_client_id") == replace(own, is_enabled=False)


def test_what_is_set_for_one_kind_wins_over_what_is_set_later_for_all() -> None:
    of = book(
        Override("one", kinds={"starved_queue": {"pending_ms": 1}}), Override("all", kinds={OF_ALL: {"pending_ms": 2}})
    ).of("c", "g")
    assert (of.of_kind("starved_queue").pending_ms, of.of_kind("split_view").pending_ms) == (1, 2)


@pytest.mark.parametrize("wrong", [{"thresholds": {"no_key": 1}}, {"kinds": {"starved_queue": {"no_key": 1}}}], ids=str)
def test_a_key_that_is_none_is_refused_when_the_book_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="no_key"):
        book(Override("o", "never", "never", **wrong))


def test_the_canary_lives_by_its_own_rules_whatever_people_set() -> None:
    quiet = default_rules(kinds={"*": kind_rules(is_enabled=False)})
    book = Rulebook(quiet, [Override("all", thresholds={"settle_ms": 1})], default_rules())
    for one in (book, pickle.loads(pickle.dumps(book))):  # noqa: S301  # our own bytes
        assert one.of(CANARY_CLUSTER, "canary") == one.of(CANARY_CLUSTER) == default_rules()
