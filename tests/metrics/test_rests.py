"""A rest after a batch is none of its work: subtracted from what Spark tells, whenever Spark tells it."""

from typing import Any

from streaming.metrics.exporter import Exporter
from streaming.metrics.liveness import Liveness
from streaming.metrics.rests import KEPT, Rests, without_rest
from tests.metrics.samples import value
from tests.metrics.test_progress import SAMPLE


def batch(batch_id: int, **durations: int) -> dict[str, Any]:
    return SAMPLE | {"batchId": batch_id, "durationMs": {"addBatch": 4_400, "triggerExecution": 4_500} | durations}


def test_a_rest_is_in_the_whole_batch_and_its_one_phase() -> None:
    worked = without_rest(batch(1, walCommit=46), 4.2)
    assert worked["durationMs"] == {"addBatch": 200, "triggerExecution": 300, "walCommit": 46}
    assert worked["processedRowsPerSecond"] == 71.3 * 15


def test_a_rest_that_seems_longer_than_its_batch_leaves_no_time_below_nothing() -> None:
    """Two clocks that are rounded."""
    worked = without_rest(batch(1, addBatch=4_199, triggerExecution=4_200), 4.2)
    assert worked["durationMs"] == {"addBatch": 0, "triggerExecution": 0}
    assert worked["processedRowsPerSecond"] == 71.3


def test_a_rest_belongs_to_its_own_batch_and_is_taken_once() -> None:
    rests = Rests()
    for batch_id in (3, 4, 6):
        rests.note("balance", batch_id, batch_id / 2)
    assert [rests.take("balance", batch_id) for batch_id in (4, 4, 5, 6)] == [2.0, 0.0, 0.0, 3.0]
    assert rests.take("relay", 6) == 0.0


def test_rests_of_which_spark_never_reports_are_forgotten() -> None:
    rests = Rests()
    for batch_id in range(KEPT + 50):
        rests.note("balance", batch_id, 1.0)
    assert rests.take("balance", 49) == 0.0
    assert rests.take("balance", 50) == 1.0


def test_what_is_exported_of_a_batch_is_its_work() -> None:
    exporter = Exporter()
    liveness = Liveness(exporter, ["balance"])
    liveness.started("balance")
    liveness.rested("balance", 7, 4.2)
    liveness.progressed(
        batch(7) | {"durationMs": {"latestOffset": 2, "triggerExecution": 3}}
    )  # it looked, found nothing
    liveness.progressed(batch(7))
    liveness.progressed(batch(8))
    for phase, seconds in (("addBatch", 0.2 + 4.4), ("triggerExecution", 0.3 + 4.5)):
        reported = value(exporter, "balancewatch_batch_phase_seconds_sum", query="balance", phase=phase)
        assert round(reported, 6) == round(seconds, 6)
    assert value(exporter, "balancewatch_processed_rows_per_second", query="balance") == 71.3
