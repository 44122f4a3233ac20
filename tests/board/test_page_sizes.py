"""How much a browser is given at 1,000 groups and 10,000 queues of one: it freezes by elements, so these are counted.

`make bench ARGS="--only board"` measures the longest task of each page in Chromium over the same tables.
"""

from pathlib import Path

import pytest

from streaming.board.pages import PAGES
from tests.board.components import text_of, walk
from tests.board.tables import NOW_MS, shown
from tests.lab.bench.board_warehouse import CLUSTER, GIANT, Size, write_warehouse

GROUP = {"cluster": CLUSTER, "group": GIANT}

MOST_MARKS = 1_000
"""Of all of a page's figures; the browser draws each as an element or two."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 queues with one row each, and brokers that were avoided 4,000 times."""
    warehouse = tmp_path_factory.mktemp("large")
    write_warehouse(warehouse, NOW_MS, Size(assignment_rows=20_000, broker_rows=4_000, incidents=20, quarantined=0))
    return warehouse


@pytest.mark.parametrize(
    ("path", "asked", "words", "most_elements"),
    [
        ("/groups", {}, "1,001 groups", 1_200),
        ("/group", GROUP, "of 10,000 queues", 4_500),
        ("/history", GROUP, "of 10,000", 2_500),
        ("/brokers", {}, "200 brokers", 1_200),
        ("/", {}, "firing", 1_000),
        ("/alerts", {}, "20 incidents", 1_000),
    ],
)
def test_a_page_of_a_large_installation_has_few_elements(
    path: str, asked: dict[str, str], words: str, most_elements: int, large: Path
) -> None:
    page = next(one for one in PAGES if one.path == path)
    body = shown(page, large, **asked)
    assert words in text_of(body)
    drawn = [element for chart in walk(body) if chart.name == "svg" for element in walk(chart)]
    assert sum(1 for _ in walk(body)) - len(set(drawn)) <= most_elements
    assert sum("bar" in element.get("class").split() for element in set(drawn)) <= MOST_MARKS
