"""A change tried on paper: what is changed, who takes which queue then, why some are nobody's, and that in words."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.rocketmq.model import MessageQueue
from udfs.whatif.allotment import Gap, allot
from udfs.whatif.comparison import compare, describe_reasons, describe_verdict
from udfs.whatif.group import Changes, Client, Group, change

IDS = ("10.0.0.1@7", "10.0.0.2@7", "10.0.0.3@7")


def group_of(queues: dict[str, int], client_ids: tuple[str, ...] = IDS, strategy: str = "AVG") -> Group:
    return Group(
        cluster="demo",
        consumer_group="billing",
        topic="orders",
        strategy=strategy,
        queues=tuple(MessageQueue("orders", name, number) for name, count in queues.items() for number in range(count)),
        clients=tuple(Client(cid, f"{cid.partition('@')[0]}:5{n}", ("orders",)) for n, cid in enumerate(client_ids)),
    )


def fates(before: Group, changes: Changes) -> dict[str, list[str]]:
    """Change → queues, of those that are not the same."""
    found: dict[str, list[str]] = {}
    for queue in compare(allot(before), allot(change(before, changes))):
        if queue.change != "same":
            found.setdefault(queue.change, []).append(queue.queue)
    return found


def words(before: Group, changes: Changes) -> list[str]:
    was, becomes = allot(before), allot(change(before, changes))
    queues = compare(was, becomes)
    return [describe_verdict(queues, was, becomes), *describe_reasons(queues, was, becomes)]


def names(broker_name: str, *ids: int) -> list[str]:
    return [f"{broker_name}:{queue_id}" for queue_id in ids]


def test_without_a_change_nothing_changes() -> None:
    group = group_of({"a": 8})
    assert change(group, Changes()) == group
    assert fates(group, Changes()) == {}
    assert words(group, Changes()) == ["Nothing starves.", "Shares are 2 to 3 queues per client."]


def test_a_client_that_joins_takes_from_the_others() -> None:
    """AVG, 8 over 3 is 0-2, 3-5, 6-7; over 4 it is two each."""
    assert fates(group_of({"a": 8}), Changes(add_clients=("10.0.0.4@7",))) == {"moved": names("a", 2, 4, 5, 6, 7)}
    assert words(group_of({"a": 8}), Changes(add_clients=("10.0.0.4@7",))) == [
        "Nothing starves, 5 move to another client.",
        "Shares are 2 queues per client (2 to 3 queues before).",
    ]


def test_a_client_that_leaves_is_named_by_id_address_or_host() -> None:
    group = group_of({"a": 8})
    by_id = change(group, Changes(remove_clients=(IDS[0],)))
    assert by_id == change(group, Changes(remove_clients=("10.0.0.1:50",)))
    assert by_id == change(group, Changes(remove_clients=("10.0.0.1",)))
    assert [client.client_id for client in by_id.clients] == list(IDS[1:])
    assert fates(group, Changes(remove_clients=(IDS[0],))) == {"moved": names("a", 0, 1, 2, 4, 5)}


def test_a_twin_starves_its_slot_and_doubles_the_first_one_s() -> None:
    """facts: AVG 8 over [A, A, B] leaves 3, 4, 5 to nobody."""
    group = group_of({"a": 8}, ("A", "B"))
    after = allot(change(group, Changes(twins=("A",))))
    assert after.gaps == dict.fromkeys(names("a", 3, 4, 5), Gap("duplicate_client_id", "A"))
    assert after.doubled() == names("a", 0, 1, 2)
    assert after.takers["a:0"] == ("A", "A (2)")
    assert words(group, Changes(twins=("A",))) == [
        "3 of 8 queues starve, 3 are consumed twice, none move to another client.",
        "a:3-5 starve: several clients share ClientId A, and each takes the share of the first.",
        "a:0-2 are consumed twice, by A and A (2).",
        "Shares are 2 to 3 queues per client (4 queues before).",
    ]


def test_a_twin_on_the_ring_starves_nothing() -> None:
    group = group_of({"a": 8}, ("A", "B"), "CONSISTENT_HASH")
    after = allot(change(group, Changes(twins=("A",))))
    assert after.gaps == {}
    assert after.doubled() == list(after.shares["A"]) == list(after.shares["A (2)"])
    assert len(after.doubled()) > 1


def test_a_twin_that_goes_heals_the_group() -> None:
    group = group_of({"a": 8}, ("A", "A", "B"))
    one = group.clients[0].client_addr
    assert one is not None
    assert words(group, Changes(remove_clients=(one,)))[0] == (
        "Nothing starves (3 queues before the change), none move to another client."
    )
    assert fates(group, Changes(remove_clients=(one,))) == {"recovered": names("a", 0, 1, 2, 3, 4, 5)}


def test_a_member_that_does_not_subscribe_keeps_its_slot_empty() -> None:
    group = group_of({"a": 8})
    after = allot(change(group, Changes(unsubscribe=(IDS[1],))))
    assert after.gaps == dict.fromkeys(names("a", 3, 4, 5), Gap("member_not_subscribed", IDS[1]))
    assert after.idle == {IDS[1]: "does not subscribe to orders"}


def test_clients_of_two_strategies_leave_gaps_and_overlap() -> None:
    """facts: 8 over 2, AVG takes 0-3, AVG_BY_CIRCLE 1, 3, 5, 7."""
    group = group_of({"a": 8}, ("A", "B"))
    after = allot(change(group, Changes(strategies={"B": "AVG_BY_CIRCLE"})))
    assert after.gaps == dict.fromkeys(names("a", 4, 6), Gap("mixed_strategy", "B"))
    assert after.doubled() == names("a", 1, 3)


def test_the_last_client_leaves_everything_to_nobody() -> None:
    group = group_of({"a": 2}, ("A",))
    after = allot(change(group, Changes(remove_clients=("A",))))
    assert after.gaps == dict.fromkeys(names("a", 0, 1), Gap("group_offline"))
    assert words(group, Changes(remove_clients=("A",))) == [
        "2 of 2 queues starve, none move to another client.",
        "a:0-1 starve: the group has no clients.",
    ]


def test_more_clients_than_queues_is_nobody_s_fault() -> None:
    group = group_of({"a": 2})
    assert allot(group).idle == {IDS[2]: "there are more clients than queues"}
    assert words(group, Changes())[1] == "Shares are 1 queue per client; 1 client of 3 gets none."


def test_brokers_and_queues() -> None:
    group = group_of({"a": 4, "b": 2})
    wider = change(group, Changes(add_brokers={"c": None, "d": 1}))
    assert [(mq.broker_name, mq.queue_id) for mq in wider.queues if mq.broker_name > "b"] == [
        *(("c", queue_id) for queue_id in range(4)),
        ("d", 0),
    ]
    assert fates(group, Changes(remove_brokers=("b",), queues={"": 5}))["added"] == ["a:4"]
    assert fates(group, Changes(remove_brokers=("b",)))["removed"] == names("b", 0, 1)
    assert change(group, Changes(queues={"b": 4})) == group_of({"a": 4, "b": 4})


def test_rooms_without_a_consumer_starve_by_the_strategy() -> None:
    group = replace(group_of({"sh@a": 2, "hz@b": 2}, ("A",), "MACHINE_ROOM"), consumer_idcs=("sh",))
    assert allot(group).gaps == dict.fromkeys(names("hz@b", 0, 1), Gap("strategy_gap"))
    assert allot(change(group, Changes(consumer_idcs=("sh", "hz")))).gaps == {}


def test_old_and_new_machine_rooms_are_mixed_strategies() -> None:
    """4.7.1 takes A's run from the list of all rooms, hz's queues first, and leaves sh@b:0-1, which were A's."""
    group = replace(group_of({"hz@a": 2, "sh@b": 4}, ("A", "B"), "MACHINE_ROOM"), consumer_idcs=("sh",))
    old = replace(group, clients=(replace(group.clients[0], client_version="4.7.1"), group.clients[1]))
    assert [*allot(group).gaps] == names("hz@a", 0, 1)
    assert [*allot(old).gaps] == names("sh@b", 0, 1)
    assert {gap.cause for gap in allot(old).gaps.values()} == {"mixed_strategy"}


def test_nearby_keeps_rooms_and_a_twin_s_slot_is_in_its_room() -> None:
    group = group_of({"hz-a": 4, "sh-b": 3}, ("h1", "s1"), "MACHINE_ROOM_NEARBY-AVG")
    rooms = {"h1": "hz", "s1": "sh"}
    group = replace(
        group,
        broker_rooms={"hz-a": "hz", "sh-b": "sh"},
        clients=tuple(replace(client, room=rooms[client.client_id]) for client in group.clients),
    )
    assert allot(group).shares == {"h1": tuple(names("hz-a", 0, 1, 2, 3)), "s1": tuple(names("sh-b", 0, 1, 2))}
    twin = allot(change(group, Changes(twins=("h1",))))
    assert twin.gaps == dict.fromkeys(names("hz-a", 2, 3), Gap("duplicate_client_id", "h1"))


def test_config_hands_out_each_client_s_own_list() -> None:
    group = group_of({"a": 3}, ("A", "B"), "CONFIG")
    lists = {"A": ("a:0", "a:1"), "B": ("a:1", "a:7")}
    group = replace(group, clients=tuple(replace(one, config_queues=lists[one.client_id]) for one in group.clients))
    assert allot(group).takers == {"a:0": ("A",), "a:1": ("A", "B"), "a:2": ()}
    assert allot(group).gaps == {"a:2": Gap("strategy_gap")}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (Changes(remove_clients=("X",)), "group billing has no client X on topic orders; it has 10.0.0.1@7,"),
        (Changes(twins=("X",)), "group billing has no client X"),
        (Changes(unsubscribe=("X",)), "group billing has no client X"),
        (Changes(strategies={"X": "AVG"}), "group billing has no client X"),
        (Changes(add_clients=(IDS[0],)), "10.0.0.1@7 already exists; use --twin for a second client with its ClientId"),
        (Changes(remove_brokers=("x",)), "group billing has no broker x on topic orders; it has a"),
        (Changes(queues={"x": 3}), "group billing has no broker x"),
        (Changes(add_brokers={"a": 3}), "broker a already has queues of topic orders"),
        (Changes(remove_brokers=("a",)), "topic orders has no queue after this change"),
    ],
)
def test_what_cannot_be_changed_says_what_there_is(changes: Changes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        change(group_of({"a": 4}), changes)


@pytest.mark.parametrize(
    ("strategy", "sentence"),
    [
        ("SWAY", "'SWAY' of group 'billing' is not one of"),
        ("CONFIG", "only client 10.0.0.1@7 knows the queues that CONFIG gives it"),
        ("MACHINE_ROOM", "give consumer_idcs"),
        ("MACHINE_ROOM_NEARBY-AVG", "needs the machine room of broker a, client 10.0.0.1@7, "),
    ],
)
def test_a_strategy_that_lacks_something_says_what(strategy: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        allot(group_of({"a": 4}, strategy=strategy))


@given(
    st.sampled_from(["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"]),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 9), min_size=1),
    st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=8),
    st.sets(st.sampled_from("ABCDE")),
)
def test_every_queue_is_taken_or_has_a_reason(
    strategy: str, queues: dict[str, int], client_ids: list[str], absent: set[str]
) -> None:
    group = group_of(queues, tuple(client_ids), strategy)
    group = change(group, Changes(unsubscribe=tuple(sorted(absent & set(client_ids)))))
    after = allot(group)
    assert after.gaps.keys() == {name for name, takers in after.takers.items() if not takers}
    assert {label for takers in after.takers.values() for label in takers} == after.shares.keys() - after.idle.keys()
    twins = {label for label in after.shares if "(" in label}
    assert {gap.cause for gap in after.gaps.values()} <= {"duplicate_client_id", "member_not_subscribed"}
    if not twins and not absent & set(client_ids):
        assert after.gaps == {}
        assert after.doubled() == []
