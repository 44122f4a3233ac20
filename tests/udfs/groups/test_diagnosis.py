"""Why a queue starves and from when on that is certain: one table, then how queues are gathered into one finding."""

from dataclasses import replace
from typing import Any

import pytest

from tests.udfs.groups.facts import RULES, at
from udfs.groups.diagnosis import CAUSES, Evidence, Starvation, diagnose
from udfs.groups.findings.queues import Blame, gather
from udfs.groups.plan import DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, PlannedShare
from udfs.groups.queue_state import Consumption, PullAnomaly, QueueState

NOBODY: frozenset[str] = frozenset()
NONE: dict[str, Blame] = {}
FROZEN = Blame("frozen_client", "A")

# Each row: number, reason, verdict, the plan, its second, the last pull, the verdict's second, proven twins, the
# owner's newest heartbeat, then the cause, since when, and from when on it is certain. The group is watched from 0.
CASES: list[tuple[Any, ...]] = [
    (1, "a queue that is pulled", "OK", "A", 0, 100, 0, "", 90, None),
    (2, "a queue of which nothing is known", "UNKNOWN", "A", 0, None, 0, "", 90, None),
    (3, "a queue that two pull", "DOUBLE_CONSUMED", "A", 0, 100, 0, "", 90, None),
    (4, "a queue another pulls", "MISPLACED", "-A", 0, 100, 0, "A", 90, None),
    (5, "a queue that is not judged", "NOT_JUDGED", "-A", 0, None, 0, "A", 90, None),
    (6, "a proven twin's slot, silent", "UNOWNED", "-A", 60, 65, 110, "A", 90, ("duplicate_client_id", 65, 110)),
    (7, "silent before the twin came", "UNOWNED", "-A", 60, 20, 105, "A", 90, ("duplicate_client_id", 60, 105)),
    (8, "an unproven twin: never", "UNOWNED", "-A", 60, 65, 110, "", 90, ("duplicate_client_id", 65, None)),
    (9, "other twins prove nothing", "UNOWNED", "-A", 60, 65, 110, "B", 90, ("duplicate_client_id", 65, None)),
    (10, "not subscribed: after settling", "UNOWNED", "?A", 60, 65, 110, "", 90, ("member_not_subscribed", 65, 140)),
    (11, "no members: after settling", "UNOWNED", "", 60, 50, 105, "", 0, ("group_offline", 60, 140)),
    (12, "heartbeat 70 s late", "NOT_CONSUMED", "A", 0, 100, 145, "", 90, ("frozen_client", 100, 160)),
    (13, "heartbeat late before it is silent", "NOT_CONSUMED", "A", 0, 100, 145, "", 60, ("frozen_client", 100, 145)),
    (14, "heartbeats continue, 120 s no pull", "NOT_CONSUMED", "A", 0, 100, 145, "", 180, ("pull_stopped", 100, 220)),
    (15, "late when pulling stopped", "NOT_CONSUMED", "A", 0, 100, 145, "", 150, ("frozen_client", 100, 220)),
    (16, "a new owner has 120 s from the plan", "NOT_CONSUMED", "A", 100, 50, 145, "", 180, ("pull_stopped", 50, 220)),
    (17, "never pulled since it was topic_state", "NOT_CONSUMED", "A", 0, None, 45, "", 90, ("pull_stopped", 0, 120)),
]  # fmt: skip


@pytest.mark.parametrize("row", CASES, ids=[str(row[0]) for row in CASES])
def test_cause(row: tuple[Any, ...]) -> None:
    _, reason, verdict, owner, planned, pulled, since, twins, heard, expected = row
    gaps = {"-": DUPLICATE_CLIENT_ID, "?": MEMBER_NOT_SUBSCRIBED}
    is_gap = owner[:1] in gaps
    queue_state = QueueState(
        last_pull_ms=None if pulled is None else at(pulled),
        share=PlannedShare(None, gaps[owner[0]], owner[1:]) if is_gap else PlannedShare(owner or None),
        share_since_ms=at(planned),
        verdict=verdict,
        since_ms=at(since),
    )
    found = diagnose(queue_state, Evidence(frozenset(twins), {"A": at(heard)}), at(0), RULES)
    if expected is None:
        assert found is None, reason
    else:
        cause, since_s, certain_s = expected
        client_id = None if cause == "group_offline" else "A"
        certain_at_ms = None if certain_s is None else at(certain_s)
        assert found is not None, reason
        assert replace(found, given_ms=0) == Starvation(cause, at(since_s), client_id, certain_at_ms), reason


def silent(pulled: float | None, consumed: float | None = None) -> QueueState:
    known = None if consumed is None else Consumption(5, 9, at(consumed), 5, at(consumed), at(consumed))
    return QueueState(
        last_pull_ms=None if pulled is None else at(pulled),
        share=PlannedShare("A"),
        share_since_ms=at(0),
        verdict="NOT_CONSUMED",
        since_ms=at(165),
        consumption=known,
    )


def test_silence_begins_with_the_last_that_was_consumed_where_pulls_are_not_reported() -> None:
    """A client that answers no question is killed at 92 s: it was consuming until then, so it did not stop pulling."""
    found = diagnose(
        silent(None, 90), Evidence(NOBODY, {"A": at(91)}, late=frozenset("A")), at(5), RULES, broker_name="a"
    )
    assert found is not None
    assert (found.cause, found.since_ms, found.certain_at_ms) == ("frozen_client", at(90), at(165))


def test_a_late_owner_whose_last_answers_were_lost_is_frozen_and_has_not_stopped_pulling_before() -> None:
    """A lost answer makes its newest known pull older than it was."""
    evidence = Evidence(NOBODY, {"A": at(120)}, at(195), late=frozenset("A"), unheard=frozenset("A"))
    found = diagnose(silent(60), evidence, at(0), RULES, broker_name="a")
    assert found is not None
    assert (found.cause, found.certain_at_ms) == ("frozen_client", at(190))
    answered = diagnose(silent(60), replace(evidence, unheard=NOBODY), at(0), RULES, broker_name="a")
    assert answered is not None
    assert answered.cause == "pull_stopped"


@pytest.mark.parametrize(("joined", "certain"), [(0, 220), (160, 280), (9_000, 580)])
def test_an_owner_that_has_just_come_back_is_given_as_long_as_a_new_one_but_not_for_ever(
    joined: float, certain: float
) -> None:
    joined_ms = {"a": {"A": at(joined)}}
    evidence = Evidence(NOBODY, {"A": at(joined + 500)}, joined_ms=joined_ms)
    found = diagnose(silent(100), evidence, at(0), RULES, broker_name="a")
    assert found is not None
    assert (found.cause, found.since_ms, found.certain_at_ms) == ("pull_stopped", at(100), at(certain))


@pytest.mark.parametrize(("now", "cause"), [(150, "consume_disabled"), (532, "pull_stopped")])
def test_a_refusal_is_the_cause_while_the_owner_asks_again_and_again(now: float, cause: str) -> None:
    """One of long ago may be of a route that has been mended since."""
    refused = PullAnomaly(refused_ms=at(136))
    queue_state = QueueState(
        share=PlannedShare("A"), share_since_ms=at(90), verdict="NOT_CONSUMED", since_ms=at(135), anomaly=refused
    )
    found = diagnose(queue_state, Evidence(frozenset(), {"A": at(now - 10)}, at(now)), at(0), RULES)
    assert found is not None
    assert found.cause == cause


def starving(cause: str = "frozen_client", certain: float | None = 0, client_id: str | None = "A") -> Starvation:
    return Starvation(cause, at(0), client_id, None if certain is None else at(certain))


# Why; from when on each queue is certain; those about to starve; those of the open incident that are still silent; its
# cause; the second; the queues found, and whether they may page.
GATHERED: list[tuple[str, dict[str, float | None], str, str, str | None, float, str, bool]] = [
    ("a first sign, certain later", {"a:0": 1}, "", "", None, 0, "a:0", False),
    ("a first sign, never certain", {"a:0": None}, "", "", None, 1000, "a:0", False),
    ("one finding, by numbers", {"a:10": 0, "a:9": 0}, "", "", None, 0, "a:9 a:10", True),
    ("waits for the queues about to starve", {"a:0": 10}, "a:1", "", None, 10, "a:0", False),
    ("for a rebalance", {"a:0": 10}, "a:1", "", None, 29.999, "a:0", False),
    ("and no longer", {"a:0": 10}, "a:1", "", None, 30, "a:0", True),
    ("waits for a queue that is certain later", {"a:0": 0, "a:1": 30}, "", "", None, 10, "a:0", False),
    ("not for an unproven twin's", {"a:0": 0, "a:1": None}, "", "", None, 10, "a:0", True),
    ("an open incident holds its queues", {}, "", "a:1 a:0", "frozen_client", 10, "a:0 a:1", False),
    ("and takes others in", {"a:2": 0}, "", "a:0", "frozen_client", 10, "a:0 a:2", True),
]


@pytest.mark.parametrize("row", GATHERED, ids=[row[0] for row in GATHERED])
def test_starved_queues_of_a_topic_are_gathered(
    row: tuple[str, dict[str, float | None], str, str, str | None, float, str, bool],
) -> None:
    _, certain, coming, silent, known, now, queues, is_ready = row
    starvations = {queue: starving(certain=second) for queue, second in certain.items()}
    found = gather(starvations, frozenset(coming.split()), dict.fromkeys(silent.split(), FROZEN), known, at(now))
    assert found is not None
    assert (found.cause, found.queues, found.is_ready) == ("frozen_client", tuple(queues.split()), is_ready)


@pytest.mark.parametrize("warned", ["write_only_queue", "group_offline"])
def test_a_cause_that_only_warns_does_not_name_the_finding_of_a_graver_one(warned: str) -> None:
    both = {"a:0": starving(warned, client_id=None), "a:1": starving()}
    found = gather(both, NOBODY, NONE, warned, at(10))
    assert found is not None
    assert (found.cause, found.client_id, found.queues) == ("frozen_client", "A", ("a:0", "a:1"))
    while_it_moves = gather({"a:0": both["a:0"]}, NOBODY, {"a:1": FROZEN}, "frozen_client", at(20))
    assert while_it_moves is not None
    assert (while_it_moves.cause, while_it_moves.client_id) == ("frozen_client", "A")


def test_the_strongest_cause_names_the_finding() -> None:
    everything = {f"a:{i}": starving(cause, client_id=cause) for i, cause in enumerate(reversed(CAUSES))}
    found = gather(everything, NOBODY, NONE, None, at(0))
    assert found is not None
    assert (found.cause, found.client_id) == ("duplicate_client_id", "duplicate_client_id")
    assert CAUSES[-1] == "group_offline"
