"""The alerts page: its filter, its timeline by lanes or by counts, its table page by page."""

from pathlib import Path

import pytest
from dash import dcc

from streaming.board.asked import AskedError
from streaming.board.incidents_reading import BINS, PAGE_ROWS, Asked, read_bins
from streaming.board.pages.alerts import PAGE
from streaming.history.store import History
from tests.board.components import by_id, links_of, text_of, walk
from tests.board.tables import MINUTE, NOW_MS, alert, shown, write

HOUR = 60 * MINUTE


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return write(
        tmp_path / "w",
        {
            "alerts": [
                alert("page", ago_ms=10 * MINUTE),
                alert("effect", ago_ms=10 * MINUTE, suppressed_by="page", kind="doubled_queue"),
                alert("over", "RESOLVED", ago_ms=30 * MINUTE, started_at=NOW_MS - 3 * HOUR, cluster="test"),
                alert("long ago", "RESOLVED", ago_ms=50 * HOUR),
                alert("never sure", "PENDING", kind="<b>bold</b>"),
                alert("canary", cluster="balancewatch_canary"),
            ]
        },
    )


def listed(warehouse: Path, **asked: str) -> list[str]:
    body = shown(PAGE, warehouse, **asked)
    return [
        link.removeprefix("/incident?id=").replace("+", " ")
        for row in walk(body)
        if type(row).__name__ == "Th" and row.to_plotly_json()["props"].get("scope") == "row"
        for link in links_of(row)
    ]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, ["page", "effect", "never sure", "over"]),
        ({"since": "7d"}, ["page", "effect", "never sure", "over", "long ago"]),
        ({"cluster": "test"}, ["over"]),
        ({"cluster": "balancewatch_canary"}, ["canary"]),
        ({"kind": "doubled_queue"}, ["effect"]),
        ({"state": "FIRING"}, ["page", "effect"]),
        ({"state": "FIRING", "explained": "no"}, ["page"]),
        ({"explained": "yes"}, ["effect"]),
        ({"group": "billing", "state": "RESOLVED"}, ["over"]),
        ({"kind": "' OR true --"}, []),
    ],
)
def test_the_filter_finds_and_the_canary_is_hidden_until_asked_for(
    asked: dict[str, str], found: list[str], warehouse: Path
) -> None:
    """Open ones come first, then those that ended last; what began before the span and reaches into it counts."""
    assert sorted(listed(warehouse, **asked)) == sorted(found)
    if not found:
        assert "No incident matches." in text_of(shown(PAGE, warehouse, **asked))


def test_what_is_asked_stands_in_the_form(warehouse: Path) -> None:
    form = by_id(shown(PAGE, warehouse, state="FIRING", group="billing", since="90m"), "filters")
    chosen = [text_of(one) for one in walk(form) if type(one).__name__ == "Option" and getattr(one, "selected", False)]
    assert chosen == ["last 90m", "FIRING", "all", "all", "all"]
    assert by_id(form, "filters-group").value == "billing"


@pytest.mark.parametrize("asked", [{"since": "soon"}, {"state": "LOUD"}, {"page": "0"}, {"explained": "maybe"}])
def test_what_cannot_be_asked_is_said_by_name(asked: dict[str, str], warehouse: Path) -> None:
    (name,) = asked
    with pytest.raises(AskedError, match=name):
        shown(PAGE, warehouse, **asked)


def test_lanes_hatch_what_is_explained_and_lead_to_the_incident(warehouse: Path) -> None:
    body = shown(PAGE, warehouse)
    figure = by_id(body, "timeline-lanes").figure
    explained = next(trace for trace in figure.data if trace.name == "explained, does not page")
    assert explained.marker.pattern.shape == "/"
    assert list(explained.customdata) == ["/incident?id=effect"]
    assert "&lt;b>bold" in next(one.text for one in figure.layout.annotations if "bold" in one.text)
    row = next(one for one in walk(body) if getattr(one, "id", None) == "incidents-table-effect")
    assert row.className == "suppressed"
    assert "⤷ explained" in text_of(row)


def test_many_incidents_are_counted_by_kind_and_the_answer_stays_small(tmp_path: Path) -> None:
    """A figure of a thousand incidents is no larger than one of a hundred; the table has one page of them."""
    sizes = {}
    for many in (100, 1_000):
        rows = [alert(f"one-{number}", "RESOLVED", ago_ms=number * MINUTE) for number in range(1, many + 1)]
        body = shown(PAGE, write(tmp_path / str(many), {"alerts": rows}), since="24h")
        (graph,) = (one for one in walk(body) if isinstance(one, dcc.Graph))
        sizes[many] = len(str(graph.figure.to_dict()))
        assert sum(getattr(one, "id", "").startswith("incidents-table-one") for one in walk(body)) == PAGE_ROWS
    assert sizes[1_000] < 1.2 * sizes[100]
    assert "counted by kind" in text_of(body)
    assert "/alerts?since=24h&page=2" in links_of(body)


def test_the_last_page_is_shown_where_a_later_one_is_asked(tmp_path: Path) -> None:
    rows = [alert(f"one-{number}", ago_ms=number) for number in range(1, PAGE_ROWS + 6)]
    assert len(listed(write(tmp_path / "w", {"alerts": rows}), page="99")) == 5


def test_bins_count_what_was_open_at_a_time(tmp_path: Path) -> None:
    """Two overlap in the middle of the span; each counts in every bin it reaches into."""
    span = BINS * MINUTE
    start = NOW_MS - span
    rows = [
        alert("a", "RESOLVED", started_at=start + 10 * MINUTE, changed_at=start + 20 * MINUTE),
        alert("b", "RESOLVED", started_at=start + 15 * MINUTE, changed_at=start + 30 * MINUTE),
        alert("c", started_at=start - MINUTE, changed_at=start, suppressed_by="a"),
    ]
    history = History(write(tmp_path / "w", {"alerts": rows}))
    pages, explained = read_bins(history, Asked(start, NOW_MS))
    assert [pages.counts[number] for number in (9, 10, 15, 20, 21, 30, 31)] == [0, 1, 2, 2, 1, 1, 0]
    assert set(explained.counts) == {1}
