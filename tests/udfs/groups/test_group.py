"""One group through time, a tick every five seconds: what tests/golden/groups.txt (test_lives.py) does not show."""

from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.queries.rulebook import rulebook
from tests.support.markdown import blocks_of
from tests.udfs.groups.facts import (
    RULES,
    A,
    B,
    Heartbeat,
    Life,
    Pull,
    at,
    fired_kinds,
    play,
    route,
    subscribes,
    two_clients,
)
from udfs.alerts.rules import FORGET_GROUP_MS
from udfs.brokers.broker_coverage import BrokerCoverage, Unasked
from udfs.groups.group import tick
from udfs.groups.state import GroupState
from udfs.rocketmq.route import Route

RUNBOOK = Path(__file__).parents[3] / "udfs" / "alerts" / "runbooks" / "group_offline.md"


def test_a_healthy_group_says_its_owners_once() -> None:
    life = two_clients()
    rows = [(when, row.queue, row.verdict) for when, outcome in life.outcomes for row in outcome.ownership]
    assert {verdict for _, _, verdict in rows} == {"UNKNOWN", "OK"}
    assert len([row for row in rows if row[2] == "OK"]) == 8
    assert all(when <= 10 for when, _, _ in rows)
    assert life.run(1000) == []


@pytest.mark.parametrize("routes", [{"orders": route()}, {}], ids=["routed", "without_a_route"])
def test_pulls_without_members_are_not_judged_and_forgotten_when_they_end(routes: dict[str, Route]) -> None:
    """assign(): no client shares the queues out."""
    state = GroupState("c", "g", at(0))
    for second in range(0, 60, 10):
        state.observe(Pull(None, "h1:1", 0, at(second)))
        outcome = tick(state, routes, at(second), BrokerCoverage(), RULES)
        assert {row.verdict for row in outcome.ownership} <= {"NOT_JUDGED"}
    for second in (200, 100_000):
        tick(state, routes, at(second), BrokerCoverage(), RULES)
    assert state.is_forgotten()


def test_a_member_first_heard_without_subscriptions_is_not_taken_for_one_that_subscribes_nothing() -> None:
    """Heartbeat V2: a stream that begins in the middle hears only `without_sub`, beside older clients' whole ones."""
    life = Life()
    life.start("h1:1", A, 0, 1, 2, 3)
    beat = Heartbeat(B, "h2:1", at(0), client_version="5.3.3", without_sub=True)
    life.state.membership.register(beat, subscribes())
    for second in range(0, 60, 10):
        for queue_id in (4, 5, 6, 7):
            life.state.observe(Pull(B, "h2:1", queue_id, at(second)))
    life.run(60)
    assert "MISPLACED" not in life.verdicts()


def test_a_group_that_was_left_is_due_after_any_hold_and_given_up_after_a_day_with_a_last_row() -> None:
    """Else a group that is gone for good would stay UNOWNED in the table's newest rows."""
    life = two_clients()
    play(life, "leave h1:1; leave h2:1; to 1000")
    assert {incident.kind for incident in life.state.incidents.values()} == {"group_offline", "starved_queue"}
    assert set(life.verdicts()) == {"UNOWNED"}
    assert life.outcomes[-1][1].due_ms == at(1_000) + 1
    life.run(3_600)
    assert life.outcomes[-1][1].due_ms == life.state.changed_ms + FORGET_GROUP_MS
    life.now += FORGET_GROUP_MS / 1000
    life.run(life.now + 5)
    newest = {
        row.queue: (row.planned_owner, row.observed_owners, row.verdict) for row in life.outcomes[-1][1].ownership
    }
    assert newest == {f"broker-a:{number}": (None, [], "NOT_JUDGED") for number in range(8)}
    assert (life.state.topics, life.state.incidents) == ({}, {})
    assert life.state.is_forgotten()


def test_the_conditions_of_a_topic_that_the_group_gave_up_go_with_it() -> None:
    life = two_clients(topics=("orders", "other"))
    life.state.conditions["order_at_risk orders"] = 1
    for addr in ("h1:1", "h2:1"):
        life.reported[addr] = {"topics": ("other",)}
    life.run(200)
    assert [name for name in life.state.conditions if name.endswith("orders")] == []


def test_a_stalled_queue_keeps_its_cause_though_its_owner_answers_by_turns() -> None:
    """Pulls and commits ended together: pull_stopped while its owner answers, consume_stopped while it is not asked."""
    life = two_clients(Life(pulls={"commit_offset": 100, "max_offset": 100}))
    life.take("h1:1")
    while life.now < 600:
        is_asked = life.now % 40 < 20
        life.broker_coverage = BrokerCoverage(unasked=() if is_asked else (Unasked(None, None, A, "no_time", at(0)),))
        for queue_id in range(4):
            pull = Pull(None, None, queue_id, at(life.now), offsets_only=True, commit_offset=100, max_offset=200)
            life.state.observe(pull)
        life.run(life.now + 10)
    rows = [row for _, outcome in life.outcomes for row in outcome.transitions if row.incident.kind == "stalled_queue"]
    assert [row.incident.cause for row in rows if row.reason == "cause_changed"] == ["consume_stopped"]


@pytest.mark.parametrize(
    ("group", "fires"), [("batch-night", set()), ("order-service", {"group_offline", "starved_queue"})]
)
def test_the_override_that_the_runbook_shows_makes_a_batch_group_page_nothing(
    group: str, fires: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = [block.text for block in blocks_of(RUNBOOK, "toml") if "group_offline = {" in block.text]
    (tmp_path / "site.toml").write_text(shown)
    monkeypatch.setenv("BALANCEWATCH_CONFIG", str(tmp_path / "site.toml"))
    life = two_clients(Life(state=GroupState("prod", group, at(0)), rules=rulebook(Settings.load()).of("prod", group)))
    play(life, f"leave h1:1; leave h2:1; to {600 if fires else 7200}")
    assert fired_kinds(life) == fires
