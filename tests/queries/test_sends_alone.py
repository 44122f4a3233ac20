"""Sends of producers that nobody keeps the time of, read once and to their end (`run --available-now`)."""

from collections.abc import Sequence
from typing import Any

import pytest

from schemas.events import SEND_LATENCIES
from streaming.queries.waiting import Planned
from tests.queries.logs import cut_as_spark_does
from tests.queries.test_fault_items import log_of, stream

pytestmark = pytest.mark.replay


def reported(rows: list[dict[str, Any]]) -> set[tuple[str, str, str, int]]:
    return {(row["kind"], row["state"], row["broker_name"], row["started_at"]) for row in rows if row["fired_at"]}


@pytest.mark.parametrize("limit", [0, 900])
@pytest.mark.parametrize("scenario", ["slow_broker", "evicted_broker"])
def test_they_are_judged_by_the_time_of_the_log_as_they_are_by_ticks(scenario: str, limit: int) -> None:
    log = log_of(scenario, 8)
    sends = [one for one in log if one["topic"] == SEND_LATENCIES]
    batches = list(cut_as_spark_does(sends, limit)) if limit else [sends]
    by_ticks = reported(stream([log])["alerts"])
    assert by_ticks
    assert stream(batches, limit)["alerts"] == []  # more may come, and a tick with it

    def plan_for(batch: Sequence[dict[str, Any]]) -> Planned:
        places = frozenset((one["topic"], one["partition"]) for one in batch if batch is not batches[-1])
        return Planned(bool(places), places, is_once=True)

    assert reported(stream(batches, limit, plan_for)["alerts"]) == by_ticks
