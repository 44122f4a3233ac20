"""Who consumes a queue, who should, and the verdict on the two: one table."""

from typing import Any

import pytest

from tests.udfs.groups.facts import RULES, at, puller
from udfs.groups.plan import DUPLICATE_CLIENT_ID, PlannedShare
from udfs.groups.queue_state import DOUBLED_TURNS, HAND_OVER_MS, PullAnomaly, Puller, QueueState, observed_owners
from udfs.groups.verdicts import verdict_of

# The verdicts. Each row: number, reason, the plan's owner (or the gap), who pulled as (client, first, last second),
# the second of the last pull ever, now, other views' owners, whether the group was ever seen to pull, the verdict.
# Watched since 0, planned since 0; a pull counts for 45 s.
A, B, C = "A", "B", "C"
BY_TURNS = PullAnomaly(turns=DOUBLED_TURNS)
TWIN_SLOT = PlannedShare(None, DUPLICATE_CLIENT_ID, A)
VERDICTS: list[tuple[Any, ...]] = [
    (1, "its owner pulls", A, [(A, 0, 100)], 100, 100, [], True, "OK"),
    (2, "its owner pulled 44.9 s ago", A, [(A, 0, 55.1)], 55.1, 100, [], True, "OK"),
    (3, "a puller nobody can name may be the owner", A, [(None, 0, 100)], 100, 100, [], True, "OK"),
    (4, "another view gives it to the puller", A, [(B, 0, 100)], 100, 100, [B], True, "OK"),
    (5, "another than the owner pulls", A, [(B, 0, 100)], 100, 100, [], True, "MISPLACED"),
    (6, "somebody pulls what the plan gives nobody", TWIN_SLOT, [(B, 0, 100)], 100, 100, [], True, "MISPLACED"),
    (7, "hand-over: the old owner's last poll ends late", B, [(A, 0, 90), (B, 65, 100)], 100, 100, [], True, "OK"),
    (8, "side by side beyond a hand-over", A, [(A, 0, 100), (B, 60, 100)], 100, 100, [], True, "DOUBLE_CONSUMED"),
    (9, "side by side by 30 s exactly", A, [(A, 0, 100), (B, 70, 100)], 100, 100, [], True, "OK"),
    (10, "side by side, planned for neither", C, [(A, 0, 100), (B, 60, 100)], 100, 100, [], True, "DOUBLE_CONSUMED"),
    (11, "its owner is silent for 45 s", A, [], 55, 100, [], True, "NOT_CONSUMED"),
    (12, "not yet 45 s", A, [], 56, 100, [], True, "UNKNOWN"),
    (13, "its owner never pulled, others of the group do", A, [], None, 100, [], True, "NOT_CONSUMED"),
    (14, "nothing was ever seen to pull in the group", A, [], None, 100, [], False, "UNKNOWN"),
    (15, "a twin's later slot", TWIN_SLOT, [], None, 100, [], True, "UNOWNED"),
    (16, "a twin's later slot needs no pulls to be known", TWIN_SLOT, [], None, 100, [], False, "UNOWNED"),
    (17, "a twin's later slot, pulled just now", TWIN_SLOT, [], 60, 100, [], True, "UNKNOWN"),
    (18, "nobody's, and the group did pull once", PlannedShare(None), [], None, 100, [], True, "UNOWNED"),
    (19, "nobody's, and nothing was ever seen of the group", PlannedShare(None), [], None, 100, [], False, "UNKNOWN"),
    (21, "side by side, one 30 s ago", A, [(A, 0, 100), (B, 30, 70)], 100, 100, [], True, "DOUBLE_CONSUMED"),
    (22, "one has handed over", A, [(A, 0, 100), (B, 30, 69.9)], 100, 100, [], True, "OK"),
    (20, "topic_state for less than 45 s", A, [], None, 44, [], True, "UNKNOWN"),
]  # fmt: skip


@pytest.mark.parametrize("row", VERDICTS, ids=[str(row[0]) for row in VERDICTS])
def test_verdict(row: tuple[Any, ...]) -> None:
    _, reason, owner, pulls, last_pull, now, others, has_pulls, verdict = row
    queue_state = QueueState(
        last_pull_ms=None if last_pull is None else at(last_pull),
        share=owner if isinstance(owner, PlannedShare) else PlannedShare(owner),
        share_since_ms=at(0),
        anomaly=BY_TURNS,
    )
    pullers = [
        Puller(None, "h0:1", at(first), at(last)) if name is None else puller(name, first, last)
        for name, first, last in pulls
    ]
    found = verdict_of(
        queue_state, pullers, set(others), watched_since_ms=at(0), has_pulls=has_pulls, now_ms=at(now), rules=RULES
    )
    assert found == verdict, reason


@pytest.mark.parametrize(
    ("overlap", "turns", "verdict"),
    [
        (85, None, "OK"),
        (85, DOUBLED_TURNS - 1, "OK"),  # a hand-over there and back
        (85, DOUBLED_TURNS, "DOUBLE_CONSUMED"),
        (HAND_OVER_MS / 1000, DOUBLED_TURNS, "OK"),
        (HAND_OVER_MS / 1000 + 0.001, DOUBLED_TURNS, "DOUBLE_CONSUMED"),
    ],
)
def test_doubled_begins_just_beyond_a_hand_over_and_by_turns(overlap: float, turns: int | None, verdict: str) -> None:
    state = QueueState(share=PlannedShare(A), anomaly=None if turns is None else PullAnomaly(turns=turns))
    both = [puller(A, 0, 95), puller(B, 95 - overlap, 100)]
    found = verdict_of(state, both, set(), watched_since_ms=at(0), has_pulls=True, now_ms=at(100), rules=RULES)
    assert found == verdict


def test_observed_owners_are_ids_with_addresses_only_where_an_id_is_not_enough() -> None:
    assert observed_owners([puller(B, 0, 1), puller(A, 0, 1)]) == [A, B]
    assert observed_owners([puller(A, 0, 1, "h1:1"), puller(A, 0, 1, "h2:1")]) == ["A at h1:1", "A at h2:1"]
    assert observed_owners([Puller(None, "h1:1", 0, 1)]) == ["h1:1"]
    assert observed_owners([Puller(None, None, 0, 1)]) == ["unknown"]
