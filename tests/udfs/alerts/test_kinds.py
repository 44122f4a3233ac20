"""What is said of each kind, held against the rules and against what they tell of modelled clusters."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from streaming.history.questions import VERDICTS
from tests.support.plays import Play, each_play
from udfs.alerts.failed_rule import RULE_FAILED
from udfs.alerts.kinds import ABOVE_GROUPS, KIND_FACTS
from udfs.alerts.rules import Rules
from udfs.alerts.self_kinds import SELF_FACTS
from udfs.brokers.cluster_findings import (
    CLOCK_SKEW,
    CLUSTER_NAME_CONFLICT,
    CLUSTER_NO_DATA,
    NAME_SERVER_UNREACHABLE,
    SLOW_COLLECTOR,
)
from udfs.brokers.cluster_state import BROKER_ISOLATED, BROKER_NO_DATA, BROKER_WITHOUT_MASTER
from udfs.groups.findings import FINDERS
from udfs.groups.group import NO_EFFECTS
from udfs.groups.queue_state import DOUBLE_CONSUMED
from udfs.producers.findings import BROKER_EVICTED, NO_AVAILABLE_BROKER


def explanations(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    kinds = {row["incident_id"]: row["kind"] for row in rows}
    for row in rows:
        if row["inhibited_by"] in kinds:
            yield row["kind"], kinds[row["inhibited_by"]]


def test_every_kind_of_the_rules_is_described() -> None:
    of_groups = {kind for kind, _ in FINDERS}
    others = {BROKER_ISOLATED, BROKER_EVICTED, NO_AVAILABLE_BROKER}
    others |= {CLUSTER_NO_DATA, BROKER_NO_DATA, BROKER_WITHOUT_MASTER}
    others |= {SLOW_COLLECTOR, CLOCK_SKEW, RULE_FAILED, NAME_SERVER_UNREACHABLE, CLUSTER_NAME_CONFLICT}
    assert {kind for kind, facts in KIND_FACTS.items() if facts.is_of_group} == of_groups
    assert {kind for kind, facts in KIND_FACTS.items() if not facts.is_of_group} == others


def test_what_a_kind_names_is_there(subtests: pytest.Subtests) -> None:
    for kind, facts in KIND_FACTS.items():
        with subtests.test(kind):
            assert set(facts.thresholds) <= {one.name for one in fields(Rules)} - {"kinds"}
            assert set(facts.inhibited_by) <= KIND_FACTS.keys() - ({kind} - {"starved_queue"})  # one frozen process
            assert facts.severities
            assert set(facts.severities) <= {"critical", "error", "warning", "info"}


def test_kinds_that_no_broker_brings_about_are_explained_by_none() -> None:
    for kind, facts in KIND_FACTS.items():
        if facts.is_of_group:
            assert bool(set(facts.inhibited_by) & set(ABOVE_GROUPS)) == (kind not in NO_EFFECTS), kind


@pytest.mark.replay
@each_play
def test_alerts_have_the_severities_and_explanations_that_are_reported(play: Play) -> None:
    rows = play.alerts
    assert rows or not any(expected.required for expected in play.expects)
    assert [row["kind"] for row in rows if row["severity"] not in KIND_FACTS[row["kind"]].severities] == []
    assert [row["cause"] for row in rows if row["cause"] not in {row["kind"], *KIND_FACTS[row["kind"]].causes}] == []
    assert [pair for pair in explanations(rows) if pair[1] not in KIND_FACTS[pair[0]].inhibited_by] == []


def test_a_verdict_shares_a_word_with_an_alert_of_the_same_meaning_only() -> None:
    """`assignments --state` takes verdicts and `alerts --kind` kinds: one word must not select different queues."""
    kinds = {kind.removesuffix("_queue") for kind in (*KIND_FACTS, *SELF_FACTS)}
    assert {verdict for verdict in VERDICTS if verdict.lower() in kinds} == {DOUBLE_CONSUMED}
