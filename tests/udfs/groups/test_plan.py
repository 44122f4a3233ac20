"""Who should consume each queue: the plan slot by slot, then groups whose members do not share out alike."""

import pytest

from tests.udfs.groups.facts import member, route
from udfs.groups.plan import (
    DUPLICATE_CLIENT_ID,
    MEMBER_NOT_SUBSCRIBED,
    MIXED_STRATEGY,
    InferredStrategies,
    is_recomputed,
    plan,
    reference_view,
    strategies_of,
)
from udfs.rocketmq.membership import Member

MARKS = {DUPLICATE_CLIENT_ID: "-", MEMBER_NOT_SUBSCRIBED: "?", MIXED_STRATEGY: "*", None: ""}


def owners_of(
    queues: int, members: list[Member], strategy: str = "AVG", seen: InferredStrategies | None = None
) -> list[str]:
    """Each queue's owner; `-A` is a slot lost to twin A, `?B` one of B, who does not subscribe, `*` a mixed one."""
    shares = plan("g", route(queues), members, strategy, seen)
    return [share.owner or f"{MARKS[share.gap]}{share.slot_of or ''}" for share in shares.values()]


def planned(queues: int, ids: str, strategy: str = "AVG", **topics: list[str]) -> list[str]:
    members = [member(name, f"h{i}:1", topics=topics.get(name, ["orders"])) for i, name in enumerate(ids)]
    return owners_of(queues, members, strategy)


@pytest.mark.parametrize(
    ("queues", "ids", "strategy", "owners"),
    [
        (8, "AB", "AVG", "A A A A B B B B"),
        (8, "BA", "AVG", "A A A A B B B B"),
        (8, "AAB", "AVG", "A A A -A -A -A B B"),
        (16, "AAB", "AVG", "A A A A A A -A -A -A -A -A B B B B B"),
        (8, "AA", "AVG", "A A A A -A -A -A -A"),
        (8, "ABB", "AVG", "A A A B B B -B -B"),
        (8, "AAAB", "AVG", "A A -A -A -A -A B B"),
        (8, "AABB", "AVG", "A A -A -A B B -B -B"),
        (8, "AAB", "AVG_BY_CIRCLE", "A -A B A -A B A -A"),
        (8, "AB", "AVG_BY_CIRCLE", "A B A B A B A B"),
        (1, "AA", "AVG", "A"),
        (2, "ABCD", "AVG", "A B"),
    ],
)
def test_twins_starve_exactly_their_later_slots(queues: int, ids: str, strategy: str, owners: str) -> None:
    assert planned(queues, ids, strategy) == owners.split()


def test_a_member_that_does_not_subscribe_takes_a_slot_all_the_same() -> None:
    assert planned(8, "ABC", B=["payments"]) == ["A", "A", "A", "?B", "?B", "?B", "C", "C"]


def test_a_strategy_this_release_does_not_know_is_no_plan() -> None:
    assert plan("g", route(4), [member("A", strategy="CONFIG")], "AVG") is None


def test_the_reference_view_knows_most_members_among_the_brokers_of_the_route() -> None:
    one, two = {"h1:1": member("A")}, {"h1:2": member("A"), "h2:2": member("B")}
    views = {"broker-a": one, "broker-b": two, "broker-c": {**two, "h3:3": member("C")}}
    members = list(two.values())
    assert reference_view(views, route(4, "broker-a", "broker-b")) == members
    assert reference_view({"broker-b": two, "broker-a": two | {}}, route(4, "broker-a", "broker-b")) == members
    assert reference_view(views, route(4, "broker-d")) == []


# Members that do not share out alike.


def mixed(queues: int, reported: dict[str, str | None], seen: InferredStrategies | None = None) -> list[str]:
    members = [member(name, strategy=strategy) for name, strategy in reported.items()]
    return owners_of(queues, members, seen=seen)


def test_a_member_that_reports_nothing_does_as_most_others_do() -> None:
    assert mixed(4, {"A": "AVG_BY_CIRCLE", "B": None}) == ["A", "B", "A", "B"]
    members = [member("A", strategy="AVG_BY_CIRCLE"), member("B")]
    assert strategies_of(members, "AVG", InferredStrategies()) == {"A": "AVG_BY_CIRCLE", "B": "AVG_BY_CIRCLE"}


def test_what_the_pulls_showed_is_believed_of_members_that_describe_nothing() -> None:
    shown = InferredStrategies({"A": "AVG_BY_CIRCLE", "B": "AVG_BY_CIRCLE"})
    assert mixed(4, {"A": None, "B": None}, shown) == ["A", "B", "A", "B"]
    assert mixed(4, {"A": "AVG", "B": "AVG"}, shown) == ["A", "A", "B", "B"]


def test_a_member_of_an_unknown_strategy_has_what_it_pulls() -> None:
    shown = InferredStrategies({"A": "AVG", "B": "?"}, {"B": ["broker-a:0", "broker-a:5"]})
    assert mixed(8, {"A": None, "B": None}, shown) == ["A", "A", "A", "A", "*", "B", "*", "*"]


def test_machine_rooms_and_configured_lists_are_known_to_the_clients_only() -> None:
    assert is_recomputed({"A": "AVG", "B": "CONSISTENT_HASH", "C": "?"})
    for strategy in ("CONFIG", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY-AVG", "our-own"):
        assert not is_recomputed({"A": "AVG", "B": strategy})


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"])
@pytest.mark.parametrize("others", [(), ("b@7",)])
def test_a_client_without_a_client_id_is_planned_like_any_other_or_takes_nothing(
    strategy: str, others: tuple[str, ...]
) -> None:
    members = [member(client_id, strategy=strategy) for client_id in ("", *others)]
    shares = plan("g", route(8), members, strategy)
    assert len(shares) == 8
    assert {share.owner for share in shares.values()} <= {None, "", *others}
