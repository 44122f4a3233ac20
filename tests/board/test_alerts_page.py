"""The alerts page: its filter, its timeline by lanes or by counts, its table page by page."""

from pathlib import Path
from typing import Any

import pytest

from streaming.board.known import Known, read_known
from streaming.board.page import View
from streaming.board.pages.alerts import (
    BINS,
    PAGE,
    PAGE_ROWS,
    ROW_PX,
    Asked,
    counts_chart,
    lanes_chart,
    pieces_of,
    read,
    read_bins,
    read_incidents,
    read_steps,
)
from streaming.store.store import History
from tests.board.components import by_id, links_of, text_of, walk
from tests.board.tables import MINUTE, NOW_MS, alert, minutes, shown, silence, view_of, write

HOUR = 60 * MINUTE


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "alerts": [
                alert("page", ago_ms=10 * MINUTE),
                alert("effect", ago_ms=10 * MINUTE, inhibited_by="page", kind="double_consumed_queue"),
                alert("over", "RESOLVED", ago_ms=30 * MINUTE, started_at=NOW_MS - 3 * HOUR, cluster="test"),
                alert("long ago", "RESOLVED", ago_ms=50 * HOUR),
                alert("never sure", "PENDING", kind="<b>bold</b>", severity="warning"),
                alert("canary", cluster="balancewatch_canary"),
            ]
        },
    )


def listed(warehouse: Path, **asked: str) -> list[str]:
    body = shown(PAGE, warehouse, **asked)
    return [
        link.removeprefix("/incident?id=").replace("+", " ")
        for row in walk(body)
        if row.get("scope") == "row"
        for link in links_of(row)
    ]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, ["page", "effect", "never sure", "over"]),
        ({"since": "7d"}, ["page", "effect", "never sure", "over", "long ago"]),
        ({"cluster": "test"}, ["over"]),
        ({"cluster": "balancewatch_canary"}, ["canary"]),
        ({"kind": "double_consumed_queue"}, ["effect"]),
        ({"state": "FIRING"}, ["page", "effect"]),
        ({"state": "FIRING", "inhibited": "no"}, ["page"]),
        ({"inhibited": "yes"}, ["effect"]),
        ({"severity": "warning"}, ["never sure"]),
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
        assert "No incidents match." in text_of(shown(PAGE, warehouse, **asked))


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("began", ["over", "page", "effect", "never sure"]),
        ("-duration", ["over", "page", "effect", "never sure"]),
        ("severity", ["never sure", "page", "effect", "over"]),
        ("kind", ["never sure", "effect", "page", "over"]),
    ],
)
def test_the_table_is_sorted_by_a_column_and_the_timeline_follows(sort: str, order: list[str], warehouse: Path) -> None:
    assert listed(warehouse, sort=sort) == order
    assert [one["incident_id"] for one in read(view_of(warehouse, sort=sort))["incidents"].items] == order


def test_the_form_shows_the_filters_and_lanes_hatch_inhibited_incidents(warehouse: Path) -> None:
    form = by_id(shown(PAGE, warehouse, state="FIRING", group="billing", since="90m"), "filters")
    chosen = [text_of(one) for one in walk(form) if one.name == "option" and "selected" in one.attributes]
    assert chosen == ["last 90m", "FIRING", "all", "all", "all", "included"]
    assert by_id(form, "filters-group")["value"] == "billing"
    body = shown(PAGE, warehouse)
    chart = lanes_chart(PAGE.read(view_of(warehouse)))
    inhibited = [bar for bar in chart.bars if bar.name == "inhibited"]
    assert [(bar.hatch, bar.href) for bar in inhibited] == [("slash", "/incident?id=effect")]
    drawn = by_id(body, "timeline-lanes")
    assert "/incident?id=effect" in [element.get("data-href") for element in walk(drawn)]
    assert "<b>bold</b>" in text_of(drawn)
    row = by_id(body, "incidents-table-effect")
    assert row["class"] == "inhibited"
    assert "⤷ inhibited" in text_of(row)


def test_many_incidents_are_counted_and_paged(tmp_path: Path) -> None:
    """A chart has at most a bar per bin and kind; beyond the last page, the last one is shown."""
    sizes = {}
    for many in (100, 1_000):
        rows = [alert(f"one-{number}", "RESOLVED", ago_ms=number * MINUTE) for number in range(1, many + 1)]
        body = shown(PAGE, write(tmp_path / str(many), {"alerts": rows}), since="24h")
        sizes[many] = sum(1 for _ in walk(by_id(body, "timeline-counts")))
        assert sum(one.get("id").startswith("incidents-table-one") for one in walk(body)) == PAGE_ROWS
    assert max(sizes.values()) < 3 * BINS
    assert "counted by kind" in text_of(body)
    assert "/alerts?since=24h&page=2" in links_of(body)
    rows = [alert(f"one-{number}", ago_ms=number) for number in range(1, PAGE_ROWS + 6)]
    assert len(listed(write(tmp_path / "1", {"alerts": rows}), page="99")) == 5


def test_bins_count_open_incidents_as_their_rows_said_then(tmp_path: Path) -> None:
    """Each counts in every bin it reaches into, once, and by its inhibition at that time."""
    span = BINS * MINUTE
    start = NOW_MS - span
    rows = [
        alert("a", "RESOLVED", started_at=start + 10 * MINUTE, changed_at=start + 20 * MINUTE),
        alert("b", "RESOLVED", started_at=start + 15 * MINUTE, changed_at=start + 30 * MINUTE),
        alert("c", started_at=start - MINUTE, changed_at=start, inhibited_by="a"),
    ]
    history = History(write(tmp_path / "w", {"alerts": rows}))
    pages, explained = read_bins(history, Asked(start, NOW_MS))
    assert [pages.counts[number] for number in (9, 10, 15, 20, 21, 30, 31)] == [0, 1, 2, 2, 1, 1, 0]
    assert set(explained.counts) == {1}
    rows = [
        alert("a", started_at=start + 10 * MINUTE, changed_at=start + 10 * MINUTE),
        alert("b", started_at=start + 15 * MINUTE, changed_at=start + 15 * MINUTE),
        alert("b", started_at=start + 15 * MINUTE, changed_at=start + 20 * MINUTE + 1, flaps=1),
        alert("b", started_at=start + 15 * MINUTE, changed_at=start + 20 * MINUTE + 2, flaps=2),
        alert("b", started_at=start + 15 * MINUTE, changed_at=start + 30 * MINUTE, inhibited_by="a"),
        alert("b", "RESOLVED", started_at=start + 15 * MINUTE, changed_at=start + 40 * MINUTE, inhibited_by="a"),
    ]
    history = History(write(tmp_path / "1", {"alerts": rows}))
    pages, explained = read_bins(history, Asked(start, NOW_MS))
    assert [pages.counts[number] for number in (9, 10, 15, 20, 29, 31, 95)] == [0, 1, 2, 2, 2, 1, 1]
    assert [explained.counts[number] for number in (29, 30, 40, 41)] == [0, 1, 1, 0]
    assert not any((*pages.unknown, *explained.unknown))
    (only,) = read_bins(history, Asked(start, NOW_MS, is_inhibited=True))
    assert only.is_inhibited


def pieces(warehouse: Path, incident_id: str, now_ms: int = NOW_MS) -> list[tuple[str, int, int]]:
    """(look, minutes before NOW_MS it began, and ended)"""
    history, asked = History(warehouse), Asked(NOW_MS - 24 * HOUR, NOW_MS)
    (one,) = [one for one in read_incidents(history, asked, 0, 50) if one["incident_id"] == incident_id]
    reported = pieces_of(one, read_steps(history, [incident_id])[incident_id], Known(now_ms))
    return [(look.name, (NOW_MS - start) // MINUTE, (NOW_MS - end) // MINUTE) for look, start, end in reported]


def test_a_bar_shows_the_states_of_its_incident(tmp_path: Path) -> None:
    """Recovering and without data are not firing; an inhibition is grey only while it lasts."""
    began = {"started_at": NOW_MS - 60 * MINUTE, "fired_at": NOW_MS - 50 * MINUTE}

    def steps(name: str, *states: tuple[str, int, str | None]) -> list[dict[str, Any]]:
        return [alert(name, state, ago * MINUTE, inhibited_by=by, **began) for state, ago, by in states]

    rows = [
        *steps("mends", ("FIRING", 50, None), ("FIRING", 45, None), ("RECOVERING", 5, None)),
        *steps("dark", ("FIRING", 50, None), ("UNKNOWN", 20, None)),
        *steps("between", ("FIRING", 50, None), ("FIRING", 40, "dark"), ("FIRING", 10, None)),
        *steps("over", ("FIRING", 50, None), ("RECOVERING", 30, None), ("RESOLVED", 20, None)),
    ]
    warehouse = write(tmp_path / "w", {"alerts": rows})
    unsure = ("pending", 60, 50)
    assert pieces(warehouse, "mends") == [unsure, ("firing", 50, 5), ("recovering", 5, 0)]
    assert pieces(warehouse, "dark") == [unsure, ("firing", 50, 20), ("no data", 20, 0)]
    assert pieces(warehouse, "between") == [
        unsure,
        ("firing", 50, 40),
        ("inhibited", 40, 10),
        ("firing", 10, 0),
    ]
    assert pieces(warehouse, "over") == [unsure, ("resolved", 50, 30), ("recovering", 30, 20)]


def test_bars_end_where_the_data_end_and_no_data_follows(tmp_path: Path) -> None:
    warehouse = write(tmp_path / "w", {"alerts": [alert("one", ago_ms=60 * MINUTE)]})
    assert pieces(warehouse, "one", NOW_MS - 30 * MINUTE)[-1] == ("firing", 60, 30)
    view = View(History(warehouse), {}, NOW_MS, 120_000, NOW_MS - 30 * MINUTE)
    assert minutes(lanes_chart(PAGE.read(view)), "firing") == [30]
    warehouse = write(tmp_path / "1", {"alerts": [alert("one", ago_ms=60 * MINUTE), silence(20 * MINUTE)]})
    chart = lanes_chart(PAGE.read(view_of(warehouse)))
    assert minutes(chart, "firing") == [40]
    assert minutes(chart, "no data") == [20, 19], "the silence itself was noted a minute later"


def test_bins_of_a_cluster_without_data_end_and_the_rest_is_no_data(tmp_path: Path) -> None:
    """Other clusters' incidents run on, and so does the silence itself; what is over was over."""
    start = NOW_MS - BINS * MINUTE
    began = {"started_at": start + 10 * MINUTE, "changed_at": start + 10 * MINUTE}
    over = {"started_at": start + 10 * MINUTE, "changed_at": start + 50 * MINUTE}
    rows = [alert("a", **began), alert("b", **began), alert("c", "RESOLVED", **over), silence(36 * MINUTE)]
    rows.append(alert("elsewhere", cluster="test", **began))
    warehouse = write(tmp_path / "w", {"alerts": rows})
    history = History(warehouse)
    known = read_known(history, NOW_MS)
    assert known == Known(NOW_MS, {"prod": NOW_MS - 36 * MINUTE})
    without_data, starved = read_bins(history, Asked(start, NOW_MS), known)
    assert [starved.counts[number] for number in (10, 50, 51, 60, 61, 95)] == [4, 4, 3, 3, 1, 1]
    assert [starved.unknown[number] for number in (59, 60, 61, 95)] == [0, 0, 2, 2]
    assert (without_data.counts[95], max(without_data.unknown)) == (1, 0)
    write(warehouse, {"alerts": [silence(36 * MINUTE, "RECOVERING", changed_at=NOW_MS - MINUTE)]}, 1)
    assert read_known(History(warehouse), NOW_MS).silent_ms == {}


def test_counted_lanes_name_and_hatch_the_time_without_data(tmp_path: Path) -> None:
    rows = [alert(f"one-{number}", ago_ms=5 * HOUR) for number in range(60)]
    warehouse = write(tmp_path / "w", {"alerts": [*rows, silence(4 * HOUR)]})
    body = shown(PAGE, warehouse, since="6h")
    chart = counts_chart(PAGE.read(view_of(warehouse, since="6h")))
    (band,) = [bar for bar in chart.bars if bar.name == "no data"]
    assert (round(band.y // ROW_PX), band.text, band.hatch) == (1, "no data", "cross")
    assert band.title == "starved_queue\nno data for 60 incidents, which may still be open"
    assert band.href == "/alerts?kind=starved_queue&inhibited=no&since=360m"
    assert "no data, may still be open" in text_of(by_id(body, "timeline"))
    assert "1 h 1 min, then no data" in text_of(by_id(body, "incidents-table-one-1"))
    old = View(History(write(tmp_path / "old", {"alerts": rows})), {"since": "6h"}, NOW_MS, 120_000, NOW_MS - 3 * HOUR)
    page = PAGE.read(old)
    (lasts,) = minutes(counts_chart(page), "no data")
    assert page["until_ms"] == NOW_MS
    assert page["from_ms"] == NOW_MS - (5 * HOUR + MINUTE) * 41 // 40, "from the first incident, and a margin"
    bin_ms = (page["until_ms"] - page["from_ms"]) / BINS
    assert 3 * HOUR - 2 * bin_ms <= lasts * MINUTE <= 3 * HOUR + MINUTE
