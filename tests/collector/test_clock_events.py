"""What the clock event tells: who says so, what gave no data and since when."""

from dataclasses import replace

import msgspec
import pytest

from schemas.events import HEARTBEATS
from streaming.collector.reading import Unheard
from streaming.collector.round_events import MAX_NO_DATA, compute_round, pick_no_data
from streaming.collector.round_memory import Machine, Memory, Skew
from streaming.kafka_io.publisher import MOST_BYTES
from tests.collector.rounds import BROKER_A, BROKER_B, GROUP, NOW, SOLO, events_of, reading, round_clock, view

STEP = 10_000
MEMBER = Unheard(None, GROUP, SOLO[0], "timed_out")
REFUSED = Unheard("broker-a", "secret_group", None, "refused")


def test_a_clock_says_which_collector_how_often_and_for_which_groups() -> None:
    whole = reading(view(BROKER_A, SOLO))
    source = {"collector": "host-1/ns:9876", "interval_ms": 30_000, "groups": ["a", "b"]}
    clock = round_clock(whole, NOW, source=source)
    assert (clock["collector"], clock["interval_ms"], clock["groups"]) == ("host-1/ns:9876", 30_000, ["a", "b"])
    clock = round_clock(whole, NOW)
    assert {"groups", "unheard", "skews", "deleted_groups"} & set(clock) == set()


def test_what_is_unheard_is_reported_with_its_reason_and_since_when() -> None:
    whole = reading(view(BROKER_A, SOLO))
    rounds = [(REFUSED,), (REFUSED, MEMBER), (REFUSED, MEMBER._replace(reason="left_in_peace")), (), (MEMBER,)]
    memory, said = Memory(), []
    for number, unheard in enumerate(rounds):
        now = NOW + number * STEP
        clock = round_clock(replace(whole, unheard=unheard), now, memory)
        said.append([(each["reason"], (each["since_ms"] - NOW) // STEP) for each in clock.get("unheard", [])])
        _, memory = compute_round(memory, replace(whole, unheard=unheard), now)
    assert said == [
        [("refused", 0)],
        [("timed_out", 1), ("refused", 0)],
        [("left_in_peace", 1), ("refused", 0)],
        [],
        [("timed_out", 4)],
    ]
    (entry,) = clock["unheard"]
    assert (entry["broker_name"], entry["consumer_group"], entry["client_id"]) == (None, GROUP, SOLO[0])


def test_a_broker_that_is_away_for_a_round_does_not_change_since_when_its_groups_are_unheard() -> None:
    both = reading(view(BROKER_A, SOLO), view(BROKER_B, SOLO), unheard=(REFUSED,))
    _, memory = compute_round(Memory(), both, NOW)
    away = replace(both, brokers={"broker-b": both.brokers["broker-b"]}, unheard=())
    assert "unheard" not in round_clock(away, NOW + STEP, memory)
    _, memory = compute_round(memory, away, NOW + STEP)
    assert round_clock(both, NOW + 2 * STEP, memory)["unheard"][0]["since_ms"] == NOW


def rows(unheard: list[Unheard], limit: int) -> list[tuple[str | None, ...]]:
    since = {each[:3]: NOW + number for number, each in enumerate(unheard)}
    return [row[:4] for row in pick_no_data(unheard, since, limit)]


def test_the_group_with_the_most_members_takes_one_row_when_there_are_too_many() -> None:
    large = [Unheard(None, "large", f"c{number}", "no_time") for number in range(50)]
    small = [Unheard(None, "small", f"s{number}", "timed_out") for number in range(5)]
    assert len(rows(large + small, 55)) == 55
    expected = [(None, "large", "*", "no_time"), *((None, "small", f"s{n}", "timed_out") for n in range(5))]
    assert rows(large + small, 54) == expected
    assert rows(large + small, 2) == [(None, "large", "*", "no_time"), (None, "small", "*", "timed_out")]
    assert rows(large + small, 1) == [(None, None, "*", "no_time")]


def test_groups_are_reported_as_their_broker_and_all_as_one_when_there_are_too_many() -> None:
    groups = [Unheard(f"broker-{letter}", f"g{number}", None, "refused") for letter in "ab" for number in range(9)]
    assert rows(groups, 10) == [
        ("broker-a", None, None, "refused"),
        *(("broker-b", f"g{number}", None, "refused") for number in range(9)),
    ]
    assert rows(groups, 1) == [(None, None, None, "refused")]
    assert pick_no_data(groups, {each[:3]: NOW - n for n, each in enumerate(groups)}, 1)[0][4] == NOW - 17


@pytest.mark.parametrize("character", ["x", "\u961f"])
def test_no_client_voids_a_clock_event_by_a_long_client_id(character: str) -> None:
    """2,000 silent clients with names of 255 characters have up to 2 MB; `round_clock` decodes the event."""
    names = [f"{number}{character * 300}"[:255] for number in range(2_000)]
    unheard = tuple(
        Unheard(None, f"{character * 200}{number % 4}", name, "timed_out") for number, name in enumerate(names)
    )
    clock = round_clock(reading(view(BROKER_A, SOLO), unheard=unheard), NOW)
    assert {each["consumer_group"] for each in clock["unheard"]} == {name.consumer_group for name in unheard}
    assert len(msgspec.json.encode(clock)) <= MOST_BYTES


def test_a_clock_names_at_most_2000_unheard() -> None:
    many = tuple(Unheard(None, f"g{number % 3_000}", f"c{number}", "no_time") for number in range(30_000))
    clock = round_clock(reading(view(BROKER_A, SOLO), unheard=many), NOW)
    assert 0 < len(clock["unheard"]) <= MAX_NO_DATA


@pytest.mark.parametrize("name", ["", "x" * 256, "x" * 100_000])
def test_a_client_cannot_make_the_clock_void_by_its_name(name: str) -> None:
    broker = replace(view(BROKER_A, (name, *SOLO[1:])), group_names=frozenset("g"))
    memory = Memory(
        skews={Machine("client", name): Skew(2 * STEP, 2 * STEP, 9)}, groups={"broker-a": frozenset([name])}
    )
    unheard = (Unheard(None, GROUP, name, "no_time"), MEMBER)
    clock = round_clock(reading(broker, unheard=unheard), NOW, memory)
    assert [each["client_id"] for each in clock["unheard"]] == [SOLO[0]]
    assert {"skews", "deleted_groups"} & set(clock) == set()


# Groups that were not read


def test_members_of_a_group_that_was_not_read_did_not_leave() -> None:
    whole = view(BROKER_A, SOLO)
    second = replace(whole.groups[0], consumer_group="second")
    both = reading(replace(whole, groups=(*whole.groups, second)))
    for groups in ((second,), ()):  # no view of the group is left from before
        unread = frozenset({GROUP} if groups else {GROUP, "second"})
        lost = reading(replace(whole, groups=groups, unread=unread))
        _, during, (left,) = events_of(HEARTBEATS, both, lost, reading(view(BROKER_A)))
        assert [said for said in during if said.get("leaving")] == []
        assert (left["leaving"], len(left["consumers"])) == (True, 2)


def test_a_group_left_while_another_was_not_read_is_left() -> None:
    whole = view(BROKER_A, SOLO)
    second = replace(whole.groups[0], consumer_group="second")
    lost = reading(replace(whole, groups=(), unread=frozenset(["second"])))
    _, (left,) = events_of(HEARTBEATS, reading(replace(whole, groups=(*whole.groups, second))), lost)
    assert (left["leaving"], [each["consumer_group"] for each in left["consumers"]]) == (True, [GROUP])


def test_a_channel_only_known_from_the_round_before_is_not_said_to_be_listed() -> None:
    whole = view(BROKER_A, SOLO)
    stale = replace(whole, producers={}, unread=frozenset([GROUP]))  # it left since, unreported
    assert events_of(HEARTBEATS, reading(whole), reading(stale))[1] == []


def test_producers_that_were_not_reported_did_not_leave() -> None:
    whole = view(BROKER_A, pay=view(BROKER_A, SOLO).producers["CLIENT_INNER_PRODUCER"])
    silent = replace(whole, producers={}, reports_producers=False)
    _, during, after = events_of(HEARTBEATS, reading(whole), reading(silent), reading(view(BROKER_A)))
    assert (during, [said["leaving"] for said in after]) == ([], [True])


def test_name_servers_and_the_addresses_of_masters_are_reported() -> None:
    whole = reading(
        view(BROKER_A, SOLO),
        view(replace(BROKER_B, broker_id=1)),
        name_servers=("a", "b"),
        name_servers_unreachable=("b",),
    )
    clock = round_clock(whole, NOW)
    assert (clock["name_servers"], clock["name_servers_unreachable"]) == (["a", "b"], ["b"])
    assert clock["broker_addresses"] == [{"broker_name": "broker-a", "address": BROKER_A.address}]
