"""Sums of many subjects: telling of one costs that one, not all of them."""

from typing import Any
from unittest.mock import patch

import pytest

from streaming.metrics.clusters import MOST_CLUSTERS, Clusters
from streaming.metrics.exporter import Exporter
from streaming.metrics.totals import Totals
from streaming.metrics.verdict_names import MEMBERS
from tests.metrics.samples import samples

FIGURE = (MEMBERS, ())


def totals(limit: int) -> tuple[Exporter, Totals]:
    exporter = Exporter()
    return exporter, Totals(exporter, "consumer_group", Clusters(), limit)


@pytest.mark.parametrize("known", [10, 3_000])
def test_one_subject_that_changed_is_one_series_set_however_many_there_are(known: int) -> None:
    exporter, sums = totals(limit=2_000)
    for number in range(known):
        sums.put(("c", f"g{number}"), {FIGURE: 1})
    sums.flush()
    calls: list[Any] = []
    with patch.object(exporter, "set", side_effect=lambda *args, **labels: calls.append(args)):
        sums.put(("c", "g1"), {FIGURE: 5})
        sums.put(("c", "g2"), {FIGURE: 1})
        sums.flush()
    assert len(calls) == 1


def test_clusters_beyond_their_limit_are_one() -> None:
    exporter, sums = totals(limit=10_000)
    for number in range(MOST_CLUSTERS + 5):
        sums.put((f"c{number}", "g"), {FIGURE: 2})
    sums.flush()
    said = samples(exporter, "balancewatch_members")
    assert len(said) == MOST_CLUSTERS + 1
    assert said[("cluster", "other"), ("consumer_group", "other")] == 10


def test_a_subject_that_came_and_went_between_two_exports_leaves_nothing() -> None:
    exporter, sums = totals(limit=10)
    sums.put(("c", "g"), {FIGURE: 2})
    sums.remove(("c", "g"))
    sums.remove(("c", "never there"))
    sums.flush()
    assert samples(exporter, "balancewatch_members") == {}
