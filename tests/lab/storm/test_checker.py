"""The checker finds each planted violation, and accepts what at-least-once and the faults allow."""

import ast
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.storm import checker
from tests.lab.storm.checker import Arrival, Episode, Fault, Storm, Verdict, deadline_of, judge, proven_at

SECOND, MINUTE = 1_000, 60_000
START, END = 0, 20 * MINUTE
FROM, UNTIL = 2 * MINUTE, 10 * MINUTE
LABELS = {"cluster": "storm-0", "consumer_group": "group-0"}
KILLED_RELAY = Fault("kill", "relay", 5 * MINUTE, 5 * MINUTE + SECOND)

ROUNDS = [[at, at + 200] for at in range(START, END, 10 * SECOND)]
EPISODE = Episode("duplicate_client_id", LABELS, FROM, UNTIL, 60 * SECOND, 60 * SECOND)
KNOWN = FROM + MINUTE + 200


def storm(*faults: Fault, rounds: list[list[int]] | None = None, exits: tuple[Fault, ...] = ()) -> Storm:
    known = {"storm-0": ROUNDS if rounds is None else rounds}
    return Storm(START, END, 2 * MINUTE, ["webhook"], [EPISODE], list(faults), list(exits), known)


def page(at_ms: int = FROM + 40 * SECOND, **fields: Any) -> Arrival:
    arrival = Arrival(
        "webhook", at_ms, True, "incident-1", "firing", "duplicate_client_id", LABELS, FROM + 5_000, None, "1:firing"
    )
    return replace(arrival, **fields)


def end(at_ms: int = UNTIL + 40 * SECOND, **fields: Any) -> Arrival:
    return page(at_ms, status="resolved", key="1:resolved", **fields)


def leases(from_ms: int, until_ms: int) -> list[Arrival]:
    """An alert that is renewed every 10 s, each time for 40 s."""
    times = range(from_ms, until_ms, 10 * SECOND)
    return [page(at, key="1 firing", ends_ms=at + 40 * SECOND) for at in times]


def found(verdict: Verdict) -> dict[str, int]:
    names = ("lost", "early", "duplicates", "unmatched")
    return {name: len(getattr(verdict, name)) for name in names if getattr(verdict, name)}


def test_it_imports_the_standard_library_only() -> None:
    tree = ast.parse(Path(checker.__file__).read_text())
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_a_page_and_its_end_in_time_are_good() -> None:
    verdict = judge(storm(), [page(), end()])
    assert verdict.is_good
    assert (verdict.transitions, verdict.longest_ms) == (2, 0)


@pytest.mark.parametrize(
    ("arrivals", "violations"),
    [
        pytest.param([], {"lost": 1}, id="no page"),
        pytest.param([end()], {"lost": 1}, id="an end without a page"),
        pytest.param([page(KNOWN + 2 * MINUTE + SECOND), end()], {"lost": 1}, id="a page after the bound"),
        pytest.param([page(labels=LABELS | {"consumer_group": "other"}), end()], {"lost": 1, "unmatched": 1},
                     id="a page of another group"),
        pytest.param([page(kind="starved_queue"), end()], {"lost": 1}, id="a page of another kind"),
        pytest.param([page(), end(UNTIL - MINUTE)], {"early": 1}, id="an end while it holds"),
        pytest.param([page(), end(changed_ms=UNTIL - MINUTE)], {"early": 1}, id="a late end that is dated early"),
        pytest.param([page(), end(FROM + MINUTE)], {"early": 1, "lost": 1}, id="an end before the page is due"),
        pytest.param([page()], {"lost": 1}, id="no end"),
        pytest.param([page(), end(UNTIL + 5 * MINUTE)], {"lost": 1}, id="an end after the bound"),
        pytest.param([page(), page(FROM + MINUTE), end()], {"duplicates": 1}, id="a page twice"),
        pytest.param([page(), end(), end(UNTIL + MINUTE)], {"duplicates": 1}, id="an end twice"),
        pytest.param([page(), end(), page(15 * MINUTE, incident="2", key="2:firing", started_ms=15 * MINUTE)],
                     {"unmatched": 1}, id="a page outside the episodes"),
    ],
)  # fmt: skip
def test_each_planted_violation_is_found(arrivals: list[Arrival], violations: dict[str, int]) -> None:
    assert found(judge(storm(), arrivals)) == violations


def test_a_page_that_a_fault_delays_counts_from_its_healing() -> None:
    away = Fault("away", "kafka", FROM, FROM + 3 * MINUTE)
    verdict = judge(storm(away), [page(away.heal_ms + 50 * SECOND), end()])
    assert verdict.is_good
    assert verdict.longest_ms == 50 * SECOND
    assert found(judge(storm(away), [page(away.heal_ms + 2 * MINUTE + SECOND), end()])) == {"lost": 1}


def test_the_bound_begins_when_all_overlapping_faults_have_healed() -> None:
    chain = [
        Fault("kill", "run", 3 * MINUTE, 4 * MINUTE),
        Fault("receiver_slow", "webhook", 5 * MINUTE, 7 * MINUTE),
        Fault("stop", "run", 10 * MINUTE, 11 * MINUTE),
    ]
    assert deadline_of(storm(*chain), 3 * MINUTE) == 9 * MINUTE
    assert deadline_of(storm(Fault("stop", "run", MINUTE, 19 * MINUTE)), 2 * MINUTE) is None


def test_rounds_that_never_reached_kafka_make_no_page_due() -> None:
    """A page is due only once an uninterrupted stretch of rounds proves the episode."""
    lost = [at for at in ROUNDS if not FROM <= at[0] < UNTIL]
    assert judge(storm(rounds=lost), []).is_good
    broken = [at for at in ROUNDS if not FROM + 50 * SECOND < at[0] < FROM + 90 * SECOND]
    assert proven_at(broken, FROM, UNTIL, MINUTE) == FROM + 150 * SECOND + 200
    assert proven_at(broken, FROM, UNTIL, MINUTE, 30 * SECOND) == FROM + 180 * SECOND + 200


def test_an_incident_that_a_gap_kept_open_needs_no_second_page() -> None:
    older = page(SECOND, started_ms=SECOND)
    assert judge(storm(), [older, end()]).is_good
    assert found(judge(storm(), [older, end(FROM + SECOND)]))["lost"] == 1


@pytest.mark.parametrize(
    ("faults", "exits", "is_clear", "explained"),
    [
        pytest.param([], (), False, 1, id="the first call had no clear answer"),
        pytest.param([KILLED_RELAY], (), True, 1, id="its sender was killed around the call"),
        pytest.param([], (replace(KILLED_RELAY, kind="exit 1"),), True, 1, id="its sender ended around the call"),
        pytest.param([replace(KILLED_RELAY, start_ms=7 * MINUTE, heal_ms=7 * MINUTE)], (), True, 0,
                     id="it was killed long after the call"),
        pytest.param([replace(KILLED_RELAY, start_ms=7 * MINUTE, heal_ms=7 * MINUTE),
                      Fault("bucket_503", "tables", 4 * MINUTE, 6 * MINUTE)], (), True, 1,
                     id="it was killed before the answer could be written"),
        pytest.param([Fault("bucket_503", "tables", 4 * MINUTE, 6 * MINUTE)], (), True, 0,
                     id="the answer could not be written, and it lived"),
        pytest.param([Fault("emptied_commit", "machine", 7 * MINUTE, 7 * MINUTE)], (), True, 1,
                     id="the record was emptied"),
        pytest.param([Fault("kill", "collector", 5 * MINUTE, 6 * MINUTE)], (), True, 0, id="another process died"),
    ],
)  # fmt: skip
def test_a_second_arrival_needs_a_reason(
    faults: list[Fault], exits: tuple[Fault, ...], is_clear: bool, explained: int
) -> None:
    change = page(5 * MINUTE, key="1:change", is_clear=is_clear)
    verdict = judge(storm(*faults, exits=exits), [page(), change, replace(change, at_ms=8 * MINUTE), end()])
    assert (verdict.explained, len(verdict.duplicates)) == (explained, 1 - explained)


def test_a_lease_that_runs_out_is_an_early_end_unless_a_fault_hit_its_sender_or_receiver() -> None:
    last = end(ends_ms=UNTIL + 40 * SECOND)
    assert judge(storm(), [*leases(FROM + MINUTE, UNTIL), last]).is_good
    gap = [*leases(FROM + MINUTE, 5 * MINUTE), *leases(6 * MINUTE, UNTIL), last]
    assert found(judge(storm(), gap)) == {"early": 1}
    assert judge(storm(KILLED_RELAY), gap).is_good
    assert judge(storm(Fault("receiver_dies", "webhook", 5 * MINUTE, 6 * MINUTE)), gap).is_good
    assert found(judge(storm(Fault("away", "kafka", 5 * MINUTE, 6 * MINUTE)), gap)) == {"early": 1}


def test_a_receiver_that_lost_its_leases_must_have_them_again_within_the_bound() -> None:
    died = Fault("receiver_dies", "webhook", 5 * MINUTE, 5 * MINUTE + SECOND)
    forever = replace(EPISODE, until_ms=None)
    quiet = replace(storm(replace(died, start_ms=FROM, heal_ms=5 * MINUTE)), episodes=[forever])
    assert judge(quiet, leases(FROM + MINUTE, END)).is_good
    stale = [page(4 * MINUTE, key="1 firing", ends_ms=END)]
    assert found(judge(quiet, stale)) == {"lost": 1}
