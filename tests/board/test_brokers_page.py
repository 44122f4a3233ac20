"""The brokers page: when k of n producers avoided a broker, who does now, and the incidents on the same axis."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streaming.board.page import View
from streaming.board.pages.brokers import LANE_PX, PAGE, Broker, brokers_chart, read_brokers
from streaming.store.store import History
from tests.board.components import by_id, links_of, text_of
from tests.board.tables import (
    MINUTE,
    NOW_MS,
    OF_NO_GROUP,
    alert,
    assignment,
    health,
    minutes,
    shown,
    silence,
    view_of,
    write,
)

HOUR = 60 * MINUTE
P = "10.0.1.1@9#3"


def fault_item(client_id: str, ago_ms: int, **columns: Any) -> dict[str, Any]:
    row = {
        "cluster": "prod",
        "broker_name": "broker-a",
        "client_id": client_id,
        "client_version": "V5_1_4",
        "current_latency_ms": 2_400,
        "isolation": False,
        "start_timestamp": NOW_MS + 12_000,
        "available": False,
        "changed_at": NOW_MS - ago_ms,
    }
    return row | columns


def brokers(warehouse: Path, since_ms: int = HOUR, cluster: str = "") -> dict[str, Broker]:
    found, _ = read_brokers(History(warehouse), cluster, NOW_MS - since_ms, NOW_MS)
    return {one.broker_name: one for one in found}


def spans(broker: Broker) -> list[tuple[int, int, int, int]]:
    """(minutes ago it began, minutes ago it ended, k, n)"""
    return [
        ((NOW_MS - one.start_ms) // MINUTE, (NOW_MS - one.end_ms) // MINUTE, one.avoiding, one.producers)
        for one in broker.intervals
    ]


def test_transitions_are_intervals_joined_over_breaks_thinner_than_a_pixel(tmp_path: Path) -> None:
    """Each has the most that avoided it; the first begins before the period."""
    steps = [health(40 * MINUTE, 1), health(38 * MINUTE, 2), health(30 * MINUTE, 0), health(10 * MINUTE, 3)]
    broker = brokers(write(tmp_path, {"broker_health": steps}))["broker-a"]
    assert spans(broker) == [(10, 0, 3, 3), (40, 30, 2, 3)]
    assert (broker.avoiding, broker.producers) == (3, 3)
    steps = [health(3 * HOUR, 2), health(20 * MINUTE, 0)]
    assert spans(brokers(write(tmp_path / "1", {"broker_health": steps}))["broker-a"]) == [(60, 20, 2, 3)]
    steps = [health(20 * MINUTE - second * 1_000, avoiding) for second, avoiding in ((0, 1), (30, 0), (33, 2), (60, 0))]
    (one,) = brokers(write(tmp_path / "2", {"broker_health": steps}))["broker-a"].intervals
    assert (one.times, one.avoiding, one.end_ms - one.start_ms) == (2, 2, 60_000)


def test_quiet_brokers_and_incidents_about_two(tmp_path: Path) -> None:
    known = brokers(write(tmp_path, {"assignments": [assignment(0, "OK")], "broker_health": []}))
    assert known["broker-a"].is_quiet
    about = {**OF_NO_GROUP, "broker_name": "broker-a,broker-b", "kind": "broker_no_data"}
    gone = alert("gone", "RESOLVED", 3 * HOUR, **about)
    found = brokers(write(tmp_path / "1", {"alerts": [alert("open", ago_ms=20 * MINUTE, **about), gone]}))
    assert [one["incident_id"] for one in found["broker-b"].incidents] == ["open"]
    assert found["broker-a"].open_incidents[0]["end_ms"] is None
    assert len(brokers(tmp_path / "1", 4 * HOUR)["broker-a"].incidents) == 2
    page = shown(PAGE, write(tmp_path / "2", {"assignments": [assignment(0, "OK")]}))
    assert "No broker was avoided or had an incident in this period." in text_of(page)
    assert "1 broker; none avoided by a producer now; no open incidents." in text_of(page)


def test_a_row_has_how_many_until_when_and_who_and_the_chart_is_text_too(tmp_path: Path) -> None:
    items = [fault_item(P, MINUTE), fault_item("10.0.1.2@9#4", MINUTE, available=True), fault_item("z", MINUTE)]
    items[2] |= {"isolation": True, "client_version": "V4_9_8"}
    write(tmp_path, {"broker_health": [health(10_000, 2)], "fault_items": items})
    row = text_of(by_id(shown(PAGE, tmp_path, since="1h"), "brokers-prod/broker-a"))
    assert "AVOIDED BY 2 OF 3 11:00:20" in row
    assert f"{P} 5.1.4: a send took 2,400 ms; since 10:59:00 , until 11:00:12" in row
    assert "z 4.9.8: a send failed" in row
    assert "10.0.1.2" not in row
    page = shown(PAGE, write(tmp_path / "1", {"broker_health": [health(10 * MINUTE, 3)]}), since="1h")
    assert "AVOIDED BY ALL, 3 OF 3" in text_of(page)
    assert "broker-a : 10:50:00 for 10 min, 3 of 3 producers" in text_of(page)


def test_brokers_with_open_incidents_come_first_then_those_that_most_avoid(tmp_path: Path) -> None:
    about = {**OF_NO_GROUP, "broker_name": "broker-c", "kind": "broker_without_master"}
    steps = [health(MINUTE, 1), health(MINUTE, 2, broker_name="broker-b"), health(MINUTE, 0, broker_name="broker-d")]
    write(tmp_path, {"broker_health": steps, "alerts": [alert("m", **about)]})
    assert list(brokers(tmp_path)) == ["broker-c", "broker-b", "broker-a", "broker-d"]
    page = shown(PAGE, tmp_path)
    assert "/incident?id=m" in links_of(page)
    assert "1 broker without avoidance or incidents in this period broker-d" in text_of(page)


def bars(page: Mapping[str, Any]) -> dict[str, list[tuple[int, int]]]:
    """By key: (lane, minutes it is long)."""
    chart = brokers_chart(page, [broker for broker in page["brokers"] if broker.intervals or broker.incidents])
    names = [key.name for key in chart.keys]
    lanes = {name: [int(bar.y // LANE_PX) for bar in chart.bars if bar.name == name] for name in names}
    return {name: list(zip(lanes[name], minutes(chart, name), strict=True)) for name in names}


def test_bars_end_with_the_data_of_their_cluster(tmp_path: Path) -> None:
    """The bar ends, the rest of the lane is a hatched band with its words, and the table says since when."""
    masterless = {**OF_NO_GROUP, "broker_name": "broker-a", "kind": "broker_without_master"}
    steps = [health(40 * MINUTE, 3), health(50 * MINUTE, 3, cluster="test", broker_name="broker-t")]
    alerts = [silence(20 * MINUTE), alert("m", ago_ms=30 * MINUTE, **masterless, fired_at=NOW_MS)]
    page = shown(PAGE, write(tmp_path, {"broker_health": steps, "alerts": alerts}), since="1h")
    value = PAGE.read(view_of(tmp_path, since="1h"))
    assert bars(value) == {
        "avoided by some": [],
        "avoided by all": [(0, 20), (1, 50)],
        "incident": [(0, 11)],
        "no data": [(0, 20)],
    }
    band = next(bar for bar in PAGE.draw(value)["chart"].bars if bar.name == "no data")
    assert (band.text, band.hatch) == ("no data", "dots")
    assert text_of(by_id(page, "silent")).startswith("? NO DATA from cluster prod since 10:40:00")
    assert "? NO DATA since 10:40:00 before: avoided by all, 3 of 3" in text_of(by_id(page, "brokers-prod/broker-a"))
    assert "NO DATA" not in text_of(by_id(page, "brokers-test/broker-t"))
    assert "no data since 10:40:00" in text_of(by_id(page, "timeline-panel"))


def test_bars_while_producers_report_and_where_all_data_are_old(tmp_path: Path) -> None:
    rows = {"broker_health": [health(40 * MINUTE, 3)], "alerts": [silence(30 * MINUTE)]}
    items = [fault_item("p", 10 * MINUTE), fault_item("p", 5 * MINUTE, available=True)]
    page = PAGE.read(view_of(write(tmp_path, rows | {"fault_items": items}), since="1h"))
    assert (bars(page)["avoided by all"], bars(page)["no data"]) == ([(0, 30)], [(0, 10)])
    history = History(write(tmp_path / "1", {"broker_health": [health(40 * MINUTE, 3)]}))
    page = PAGE.read(View(history, {"since": "1h"}, NOW_MS, 120_000, NOW_MS - 15 * MINUTE))
    assert (bars(page)["avoided by all"], bars(page)["no data"]) == ([(0, 25)], [(0, 15)])


def test_a_broker_with_data_has_no_time_without_data(tmp_path: Path) -> None:
    page = shown(PAGE, write(tmp_path, {"broker_health": [health(40 * MINUTE, 3)]}), since="1h")
    value = PAGE.read(view_of(tmp_path, since="1h"))
    assert bars(value) == {"avoided by some": [], "avoided by all": [(0, 40)], "incident": []}
    assert "NO DATA" not in text_of(page)


def test_a_broker_without_data_is_not_called_avoided_or_not_avoided_now(tmp_path: Path) -> None:
    page = shown(PAGE, write(tmp_path, {"broker_health": [health(40 * MINUTE, 0)], "alerts": [silence(20 * MINUTE)]}))
    assert "NOT AVOIDED" not in text_of(page)
    assert "1 broker; 1 without current data; no open incidents." in text_of(page)
    steps = [health(40 * MINUTE, 1), health(30 * MINUTE, 0)]
    page = shown(PAGE, write(tmp_path, {"broker_health": steps}, 1))
    row = text_of(by_id(page, "brokers-prod/broker-a"))
    assert row.startswith("broker-a prod ? NO DATA since 10:40:00 before: not avoided")
