"""The short form of `make storm`: one leg of four minutes, with faults of every part of the path."""

import threading
from pathlib import Path

import pytest

from tests.lab.storm.__main__ import play_legs
from tests.lab.storm.drawn import draw_deployment, draw_plan, kinds_of

SECONDS, SEED = 240.0, 164
"""A seed whose short leg has a power cut, a full disk, a kill, a receiver that trickles, and Kafka away."""


def test_a_seed_draws_the_same_faults_and_leaves_the_quiet_spell() -> None:
    deployment = draw_deployment(SEED, 1)
    plan = draw_plan(deployment, 1_800, 150, 30)
    assert plan == draw_plan(deployment, 1_800, 150, 30)
    assert {f"{fault.kind} {fault.target}" for fault in plan.faults} <= kinds_of(deployment.tables)
    assert max(fault.at + fault.lasts for fault in plan.faults) <= 1_800 - 150
    assert any(one.at < other.at < one.at + one.lasts for one in plan.faults for other in plan.faults), "faults overlap"


@pytest.mark.real
@pytest.mark.proof
def test_a_storm_loses_no_page(tmp_path: Path) -> None:
    (leg,) = play_legs(tmp_path, SEED, SECONDS, threading.Event())
    assert leg.verdict.is_good, leg.verdict
    assert leg.verdict.transitions
    assert leg.storm.faults
