"""The short form of `make chaos`: a kill at two named points, or each and one at random, and the relay's."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from tests.lab.chaos.deliveries import deliveries
from tests.lab.chaos.full_disk import CannotMountError, full_disk
from tests.lab.chaos.kill_points import QUERY_POINTS, RELAY_POINTS
from tests.lab.chaos.kills import at_points, at_random
from tests.lab.chaos.modelled_log import modelled_log
from tests.lab.chaos.place import Place
from tests.support.tiers import in_proof

LOG_SECONDS, FULL_DISK_SECONDS = 200, 300
"""Twins come at second 60, the broker is slow from 120 on; a disk fills later than a kill comes."""

SCENARIOS = ("twins", "slow_broker")


@pytest.mark.spark
@pytest.mark.real
@pytest.mark.parametrize(("points", "kills"), [(("after_action", "between_tables"), 0), *in_proof([(QUERY_POINTS, 1)])])
def test_a_service_killed_anywhere_leaves_the_history_of_one_that_was_not(
    empty_kafka: EmbeddedKafka, warm_spark: SparkSession, tmp_path: Path, points: Sequence[str], kills: int
) -> None:
    """With part of a batch in Delta, with none of it, with all of it and not yet marked as done, and at random.

    Every row of every table is the same, once: no incident is lost, none is reported twice, no pending time is counted
    while the service was down.
    """
    place = Place(empty_kafka, tmp_path, warm_spark)
    reference = place.reference(modelled_log(LOG_SECONDS, 1, SCENARIOS))
    assert {"alerts", "assignments", "memberships", "fault_items", "quarantine"} <= {
        table for table, rows in reference.items() if rows
    }
    at_points(place, "killed", [(point, 1) for point in points])
    assert at_random(place, "killed", kills, random.Random(1)) == kills, "nothing was left to do"
    comparison = place.finish("killed", reference)
    assert comparison.is_equal, comparison.describe()


@pytest.mark.proof
@pytest.mark.spark
@pytest.mark.real
def test_a_full_disk_ends_the_run_with_one_sentence_and_costs_no_row(
    empty_kafka: EmbeddedKafka, warm_spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(empty_kafka, tmp_path, warm_spark)
    reference = place.reference(modelled_log(FULL_DISK_SECONDS, 2, SCENARIOS[:1]))
    try:
        filled = full_disk(place, "warehouse", reference)
    except CannotMountError as error:
        pytest.skip(f"no small disk can be mounted: {error}")
    assert filled.is_good, f"{filled.remark}\n{filled.comparison.describe()}"


@pytest.mark.proof
@pytest.mark.real
@pytest.mark.parametrize("point", RELAY_POINTS)
def test_a_relay_killed_around_a_call_leaves_nothing_unreported(tmp_path: Path, point: str) -> None:
    """Only the call that was in flight may be made twice, and each incident's calls keep their order."""
    reported = deliveries(tmp_path, point, (1, 2), 1)
    assert reported.is_good, f"{reported.remark}\n{reported.comparison.describe()}"
