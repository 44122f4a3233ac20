"""A timeline shows a span that follows what is in it: no empty time before the first and after the last."""

from pathlib import Path

import pytest

from streaming.board.known import extent_of
from streaming.board.pages import alerts, brokers, history, incident
from streaming.text.times import iso
from tests.board.components import Element, by_id
from tests.board.tables import MINUTE, NOW_MS, alert, assignment, health, shown, view_of, write

HOUR = 60 * MINUTE


def axis_of(node: Element, id_: str) -> list[str]:
    """Where a chart's axis begins and ends, to the second."""
    chart = by_id(node, id_)
    return [iso(int(chart[name]))[11:19] for name in ("data-from-ms", "data-until-ms")]


@pytest.mark.parametrize(
    ("times_ms", "extent"),
    [
        ([], (0, HOUR)),
        ([40 * MINUTE, 60 * MINUTE], (40 * MINUTE - 30_000, HOUR)),
        ([10 * MINUTE, 20 * MINUTE], (10 * MINUTE - 30_000, 20 * MINUTE + 30_000)),
        ([0, 40 * MINUTE], (0, 41 * MINUTE)),
        ([30 * MINUTE], (30 * MINUTE - 30_000, 30 * MINUTE + 30_000)),
        ([-5, 2 * HOUR], (0, HOUR)),
    ],
)
def test_the_extent_is_what_is_in_it_and_a_margin(times_ms: list[int], extent: tuple[int, int]) -> None:
    assert extent_of(0, HOUR, times_ms) == extent


def test_each_charts_axis_has_the_extent_of_its_bars(tmp_path: Path) -> None:
    """From the first sign to the end, or to now where something is open."""
    over = alert("over", "RESOLVED", 40 * MINUTE, started_at=NOW_MS - 60 * MINUTE)
    warehouse = write(tmp_path / "w", {"alerts": [over]})
    assert axis_of(shown(alerts.PAGE, warehouse), "timeline-lanes") == ["09:59:30", "10:20:30"]
    write(warehouse, {"alerts": [alert("open", ago_ms=10 * MINUTE)]}, 1)
    assert axis_of(shown(alerts.PAGE, warehouse), "timeline-lanes") == ["09:58:30", "11:00:00"]
    rows = [alert(f"one-{number}", "RESOLVED", 30 * MINUTE) for number in range(60)]
    page = alerts.read(view_of(write(tmp_path / "1", {"alerts": rows}), since="24h"))
    assert (page["from_ms"], page["until_ms"]) == (NOW_MS - 31 * MINUTE - 30_000, NOW_MS - 30 * MINUTE + 30_000)
    (bins,) = page["bins"]
    assert sum(1 for count in bins.counts if count) > 40, "and not in one of the day's"
    steps = [health(50 * MINUTE, 1), health(40 * MINUTE, 0)]
    warehouse = write(tmp_path / "2", {"broker_health": steps})
    assert axis_of(shown(brokers.PAGE, warehouse, since="24h"), "brokers-chart") == ["10:09:30", "10:20:30"]
    warehouse = write(tmp_path / "3", {"assignments": [assignment(0, "OK", changed_at=NOW_MS - 6 * MINUTE)]})
    page = history.read(view_of(warehouse, group="billing", since="1h", at="2m"))
    assert (page["times"]["from_ms"], page["at_ms"]) == (NOW_MS - 6 * MINUTE - 30_000, NOW_MS - 2 * MINUTE)
    steps = [
        alert("long", "FIRING", 9 * HOUR, started_at=NOW_MS - 9 * HOUR),
        alert("long", "RESOLVED", HOUR, started_at=NOW_MS - 9 * HOUR),
    ]
    page = shown(incident.PAGE, write(tmp_path / "4", {"alerts": steps}), id="long")
    assert axis_of(page, "band") == ["01:58:00", "10:12:00"]
    assert axis_of(shown(incident.PAGE, write(tmp_path / "4" / "open", {"alerts": steps[:1]}), id="long"), "band") == [
        "01:58:00",
        "11:00:00",
    ]
