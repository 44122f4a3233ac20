"""One incident of a topic's starved queues through time: which cause and client it names, and when it ends."""

from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.queries.rulebook import rulebook
from tests.support.markdown import blocks_of
from tests.udfs.groups.facts import A, Life, Pull, at, fired_kinds, play, two_clients
from udfs.brokers.broker_coverage import BrokerCoverage, Unasked
from udfs.groups.state import GroupState

RUNBOOK = Path(__file__).parents[3] / "udfs" / "alerts" / "runbooks" / "group_offline.md"


def test_a_stalled_queue_keeps_its_cause_though_its_owner_answers_by_turns() -> None:
    """Pulls and commits ended together: pull_stopped where its owner answers, consume_stopped where nobody asked it."""
    life = two_clients(Life(pulls={"commit_offset": 100, "max_offset": 100}))
    life.take("h1:1")
    while life.now < 600:
        is_asked = life.now % 40 < 20
        life.broker_coverage = BrokerCoverage(unasked=() if is_asked else (Unasked(None, None, A, "no_time", at(0)),))
        for queue_id in range(4):
            told = Pull(None, None, queue_id, at(life.now), offsets_only=True, commit_offset=100, max_offset=200)
            life.state.observe(told)
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
