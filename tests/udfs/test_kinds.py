"""What is said of each kind, held against the rules and against what they tell of modelled clusters."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from tests.plays import Play, each_play
from udfs.broker_findings import BROKER_EVICTED, NO_AVAILABLE_BROKER
from udfs.broker_trouble import BROKER_ISOLATED
from udfs.cluster import MASTERLESS_BROKER, UNHEARD_BROKER, UNHEARD_CLUSTER
from udfs.failed_rule import RULE_FAILED
from udfs.findings import FINDERS
from udfs.group import NO_EFFECTS
from udfs.kinds import ABOVE_GROUPS, KIND_FACTS
from udfs.rules import Rules
from udfs.skew_findings import CLOCK_SKEW
from udfs.source_findings import SLOW_COLLECTOR


def explanations(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    kinds = {row["incident_id"]: row["kind"] for row in rows}
    for row in rows:
        if row["suppressed_by"] in kinds:
            yield row["kind"], kinds[row["suppressed_by"]]


def test_every_kind_of_the_rules_is_described() -> None:
    of_groups = {kind for kind, _ in FINDERS}
    others = {BROKER_ISOLATED, BROKER_EVICTED, NO_AVAILABLE_BROKER, UNHEARD_CLUSTER, UNHEARD_BROKER, MASTERLESS_BROKER}
    others |= {SLOW_COLLECTOR, CLOCK_SKEW, RULE_FAILED}
    assert {kind for kind, facts in KIND_FACTS.items() if facts.is_of_group} == of_groups
    assert {kind for kind, facts in KIND_FACTS.items() if not facts.is_of_group} == others


def test_what_a_kind_names_is_there(subtests: pytest.Subtests) -> None:
    for kind, facts in KIND_FACTS.items():
        with subtests.test(kind):
            assert set(facts.thresholds) <= {one.name for one in fields(Rules)} - {"kinds"}
            assert set(facts.explained_by) <= KIND_FACTS.keys() - {kind}
            assert facts.severities
            assert set(facts.severities) <= {"critical", "error", "warning", "info"}


def test_kinds_that_no_broker_brings_about_are_explained_by_none() -> None:
    for kind, facts in KIND_FACTS.items():
        if facts.is_of_group:
            assert bool(set(facts.explained_by) & set(ABOVE_GROUPS)) == (kind not in NO_EFFECTS), kind


@pytest.mark.replay
@each_play
def test_alerts_have_the_severities_and_explanations_that_are_told(play: Play) -> None:
    rows = play.alerts
    assert rows or not any(expected.required for expected in play.scenario.expects)
    assert [row["kind"] for row in rows if row["severity"] not in KIND_FACTS[row["kind"]].severities] == []
    assert [pair for pair in explanations(rows) if pair[1] not in KIND_FACTS[pair[0]].explained_by] == []
