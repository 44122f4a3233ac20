"""The list of metrics: form of the names, and agreement of exporter and code with the list."""

import math
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streaming.metrics import names
from streaming.metrics.exporter import Exporter
from streaming.metrics.names import METRICS, Metric
from streaming.metrics.tables import TableMetrics
from tests.support.offenders import assert_none

CLIENTS_OWN = ("process_", "python_gc_")
ROOM = Path(names.__file__).parent
PAGE = ROOM / "README.md"
CONSTANTS = {name: value for name, value in vars(names).items() if isinstance(value, Metric)}


def test_a_name_has_its_kind(subtests: pytest.Subtests) -> None:
    for metric in METRICS:
        with subtests.test(metric.name):
            assert metric.name.startswith("balancewatch_")
            assert metric.name.endswith("_total") == (metric.kind == "counter")
            assert (metric.kind == "histogram") == bool(metric.buckets)
            assert not metric.buckets or metric.name.endswith("_seconds")


def test_help_texts_are_sentences() -> None:
    assert_none(one.name for one in METRICS if not one.says.endswith("."))


def test_no_name_is_taken_twice() -> None:
    assert len({one.name for one in METRICS}) == len(METRICS) == len(CONSTANTS)


def test_the_exporter_has_every_listed_metric_and_nothing_else() -> None:
    families = {one.name for one in text_string_to_metric_families(Exporter(TableMetrics(10)).text().decode())}
    ours = {name for name in families if not name.startswith(CLIENTS_OWN)}
    assert ours == {one.name.removesuffix("_total") for one in METRICS}


def test_a_gauge_that_was_never_set_is_nan() -> None:
    families = {one.name: one for one in text_string_to_metric_families(Exporter().text().decode())}
    assert math.isnan(families["balancewatch_canary_age_seconds"].samples[0].value)


def test_labels_other_than_the_metrics_own_are_refused() -> None:
    with pytest.raises(ValueError, match="Incorrect label names"):
        Exporter().series(names.DUE_NOTICES, topic="t")


def test_the_page_of_the_metrics_has_each_one_with_its_kind_labels_and_help(subtests: pytest.Subtests) -> None:
    """The rules' runbooks link to its headings."""
    rows, *sections = PAGE.read_text().split("\n### ")
    assert [section.partition("\n")[0] for section in sections] == [metric.name for metric in METRICS]
    for metric, section in zip(METRICS, sections, strict=True):
        with subtests.test(metric.name):
            kind, labels = metric.kind, ", ".join(f"`{label}`" for label in metric.labels)
            assert re.search(
                rf"(?m)^\| \[`{metric.name}`\]\(#{metric.name}\) \| {kind} \| [a-z ]+ \| {labels} \|$", rows
            )
            by = f", by {labels}" if labels else ""
            assert re.match(rf"{metric.name}\n\n{re.escape(metric.says)}\n\n\*{kind}, [a-z ]+{by}\*\n", section)
            assert re.search(r"\n\n\*\*When it rises\.\*\* [^\n]+\.\n", section + "\n")
