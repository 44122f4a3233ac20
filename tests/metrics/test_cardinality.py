"""Names from Kafka as label values: harmless and bounded in length and number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from streaming.metrics.cardinality import LONGEST, Cardinality, clean
from streaming.metrics.exporter import Exporter
from streaming.metrics.verdict_names import GROUPS

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=400)


@given(ANY_TEXT)
def test_any_name_is_a_label_value_that_prometheus_reads_back(name: str) -> None:
    exporter = Exporter()
    exporter.set(GROUPS, 1, cluster=clean(name))
    families = {one.name: one for one in text_string_to_metric_families(exporter.text().decode())}
    (sample,) = families["balancewatch_groups"].samples
    assert sample.labels["cluster"] == clean(name)
    assert len(clean(name)) <= LONGEST


@given(ANY_TEXT, ANY_TEXT)
def test_two_names_stay_two(one: str, other: str) -> None:
    assert (clean(one) == clean(other)) == (one == other)


@pytest.mark.parametrize("name", ["billing", "%RETRY%billing", "消费组", 'with "quotes" and \\'])
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert clean(name) == name


def test_names_beyond_the_limit_are_folded_and_stay_so_until_they_are_gone() -> None:
    folding: Cardinality[str] = Cardinality(2)
    assert [folding.is_named(name) for name in "abcab"] == [True, True, False, True, True]
    assert folding.folded == 1
    folding.let_go("a")
    assert not folding.is_named("c")
    folding.let_go("c")
    assert folding.is_named("c")
    assert folding.folded == 0
