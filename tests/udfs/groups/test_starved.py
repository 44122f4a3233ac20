"""One incident of a topic's starved queues through time: which cause and client it names, and when it ends."""

from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.queries.rulebook import rulebook
from tests.markdown import blocks_of
from tests.rules import default_rules, kind_rules
from tests.udfs.groups.facts import RULES, A, B, Life, Pull, at, names, route_of, two_clients
from udfs.alerts.alert import Incident, Transition
from udfs.brokers.broker_coverage import BrokerCoverage, Unasked
from udfs.groups.state import GroupState

OFF = default_rules(kinds={**RULES.kinds, "group_offline": kind_rules(is_enabled=False)})
"""Groups that are offline on purpose."""


RUNBOOK = Path(__file__).parents[3] / "udfs" / "alerts" / "runbooks" / "group_offline.md"


def rows(life: Life, kind: str = "starved_queue") -> list[tuple[float, Transition]]:
    """The rows of what fired."""
    return [
        (when, row)
        for when, outcome in life.outcomes
        for row in outcome.transitions
        if row.incident.kind == kind and row.incident.has_fired
    ]


def starved(life: Life) -> Incident:
    return life.state.incidents["starved_queue orders"]


def test_a_warning_of_a_write_only_queue_becomes_critical_at_once_when_a_client_freezes_and_stays_so() -> None:
    life = two_clients()
    life.route, life.state.is_stale = route_of(("broker-a", 8, 9, 6)), True
    life.run(1_200)
    assert (starved(life).cause, starved(life).severity, starved(life).queues) == (
        "write_only_queue",
        "warning",
        names(8),
    )
    life.freeze("h1:1")
    life.run(1_300)
    (when, worse), *_ = [(when, row) for when, row in rows(life) if when > 1_200]
    assert when <= 1_275
    assert (worse.reason, worse.incident.cause, worse.incident.severity) == (
        "cause_changed",
        "frozen_client",
        "critical",
    )
    assert starved(life).queues == names(0, 1, 2, 3, 8)
    life.run(2_000)  # the plan gives its queues to B, who does not pull them
    assert {row.incident.severity for when, row in rows(life) if when > 1_200} == {"critical"}
    life.take("h2:1", *range(8))
    life.run(2_100)
    assert (starved(life).cause, starved(life).severity) == ("write_only_queue", "warning")


def test_a_client_that_has_left_is_not_blamed_for_the_silence_of_the_next_owner() -> None:
    life = two_clients()
    life.freeze("h1:1")
    life.run(220)
    assert (starved(life).cause, starved(life).client_id) == ("frozen_client", A)
    life.run(700)
    assert (starved(life).cause, starved(life).client_id, starved(life).queues) == (
        "pull_stopped",
        B,
        names(0, 1, 2, 3),
    )


def test_queues_of_a_new_owner_whose_pulls_nobody_reports_do_not_starve_for_ever() -> None:
    life = two_clients()
    life.freeze("h1:1")
    life.run(230)
    life.start("h3:1", "a@8")
    life.run(900)
    assert "starved_queue orders" not in life.state.incidents
    assert rows(life)[-1][1].state == "RESOLVED"
    assert life.verdicts()[0] == "UNKNOWN"


def test_a_stalled_queue_keeps_its_cause_though_its_owner_answers_by_turns() -> None:
    """Pulls and commits ended together: pull_stopped where its owner answers, consume_stopped where nobody asked it."""
    life = Life(pulls={"commit_offset": 100, "max_offset": 100})
    life.start("h1:1", A, 0, 1, 2, 3)
    life.start("h2:1", B, 4, 5, 6, 7)
    life.run(120)
    life.take("h1:1")
    while life.now < 600:
        is_asked = life.now % 40 < 20
        life.broker_coverage = BrokerCoverage(unasked=() if is_asked else (Unasked(None, None, A, "no_time", at(0)),))
        for queue_id in range(4):
            told = Pull(None, None, queue_id, at(life.now), offsets_only=True, commit_offset=100, max_offset=200)
            life.state.observe(told)
        life.run(life.now + 10)
    causes = [row.incident.cause for _, row in rows(life, "stalled_queue") if row.reason == "cause_changed"]
    assert causes == ["consume_stopped"]


def test_the_queues_of_a_group_that_is_offline_on_purpose_do_not_starve() -> None:
    life = two_clients()
    life.rules = OFF
    life.leave("h1:1")
    life.leave("h2:1")
    assert life.run(2_000) == []


@pytest.mark.parametrize(
    ("group", "fires"), [("batch-night", set()), ("order-service", {"group_offline", "starved_queue"})]
)
def test_the_override_that_the_runbook_shows_makes_a_batch_group_page_nothing(
    group: str, fires: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = [block.text for block in blocks_of(RUNBOOK, "toml") if "group_offline = {" in block.text]
    (tmp_path / "site.toml").write_text(shown)
    monkeypatch.setenv("BALANCEWATCH_CONFIG", str(tmp_path / "site.toml"))
    rules = rulebook(Settings.load()).of("prod", group)
    life = two_clients(Life(state=GroupState("prod", group, at(0)), rules=rules))
    life.leave("h1:1")
    life.leave("h2:1")
    assert {kind for _, kind, _, _ in life.run(7_200)} == fires


def test_a_group_that_is_offline_on_purpose_ends_what_starved_before() -> None:
    life = two_clients()
    life.rules = OFF
    life.take("h1:1")
    life.run(400)
    assert (starved(life).cause, starved(life).client_id) == ("pull_stopped", A)
    life.leave("h1:1")
    life.leave("h2:1")
    life.run(600)
    assert "starved_queue orders" not in life.state.incidents
