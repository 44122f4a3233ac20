"""The pages of silences and deliveries, and the sorting of tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from streaming.board.pages import brokers, deliveries, groups, silences
from tests.board.components import Element, by_id, cells_of, links_of, read_html, rows_of, text_of, walk
from tests.board.tables import MINUTE, NOW_MS, OF_NO_GROUP, alert, assignment, client_of, health, shown, write
from tests.history.warehouse_stage import delivery

HOUR = 60 * MINUTE


def silence(name: str, from_ms: int, until_ms: int, **columns: Any) -> dict[str, Any]:
    times = {"starts_at": NOW_MS + from_ms, "ends_at": NOW_MS + until_ms, "changed_at": NOW_MS - HOUR}
    row = {"silence_id": name, "created_by": "ada", "comment": "deploy", "matchers": json.dumps({"cluster": ["prod"]})}
    return row | times | columns


def ids(page: Element, table: str) -> list[str]:
    return [row["id"].removeprefix(f"{table}-") for row in rows_of(page, table)]


def sent(incident_id: str, outcome: str, ago_ms: int, **columns: Any) -> dict[str, Any]:
    row = {"incident_id": incident_id, "delivered_at": NOW_MS - ago_ms, "delivery_key": f"{incident_id}:firing:1"}
    return delivery("", outcome, 0, **{**row, **columns})


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "alerts": [alert("one"), alert("two", cluster="test"), alert("probe", cluster="balancewatch_canary")],
            "silences": [
                silence("now", -HOUR, HOUR),
                silence("soon", HOUR, 2 * HOUR, created_by="bob"),
                silence("over", -2 * HOUR, -HOUR),
                silence("odd", -HOUR, HOUR, matchers="no json"),
            ],
            "alert_deliveries": [
                sent("one", "PENDING", 5 * MINUTE, receiver="pager", attempt=0),
                sent("one", "RETRYING", 4 * MINUTE, receiver="pager", code=500, reason="HTTP 500"),
                sent("one", "DELIVERED", 3 * MINUTE, receiver="pager", attempt=2, latency_ms=41, route="prod"),
                sent("two", "SILENCED", 2 * MINUTE, receiver="*", attempt=0, reason="now"),
                sent("gone", "REFUSED", MINUTE, receiver="chat", attempt=1, code=404, latency_ms=7, kind="split_view"),
                sent("probe", "DELIVERED", MINUTE, receiver="canary"),
                sent("one", "DELIVERED", 50 * HOUR, receiver="chat"),
            ],
        },
    )


def test_silences_say_what_they_cover_and_ended_ones_are_shown_on_request(warehouse: Path) -> None:
    page = shown(silences.PAGE, warehouse)
    assert ids(page, "silences") == ["now", "soon"]
    assert text_of(by_id(page, "silences-now")) == (
        "cluster=prod now ◌ active ada deploy 10:00:00 12:00:00 starved_queue billing"
    )
    assert "/incident?id=one" in links_of(by_id(page, "silences-now"))
    assert text_of(by_id(page, "silences-soon")).endswith("◷ scheduled bob deploy 12:00:00 13:00:00 -")
    assert "Unreadable silences: 1 . They cover nothing." in text_of(page)
    assert ids(shown(silences.PAGE, warehouse, show="all"), "silences") == ["now", "soon", "over"]
    assert ids(shown(silences.PAGE, warehouse, sort="-by"), "silences") == ["soon", "now"]


def test_mutes_are_shown_with_their_window_and_mark_the_incidents_that_they_cover(warehouse: Path) -> None:
    mute = {"name": "night", "match": {"cluster": "test"}, "from": "10:00", "to": "12:00"}
    later = {"match": {"cluster": "test"}, "from": "13:00", "to": "14:00"}
    client = client_of(warehouse, mutes=[mute, later])
    rows = rows_of(by_id(read_html(client.get("/silences").text), "page"), "mutes")
    assert [text_of(row) for row in rows] == [
        "night cluster=test 10:00 to 12:00 UTC, every day ◌ active 10:00:00 12:00:00 starved_queue billing",
        "cluster=test cluster=test 13:00 to 14:00 UTC, every day ◷ scheduled 13:00:00 14:00:00 -",
    ]
    assert "◌ muted until 12:00:00" in text_of(by_id(read_html(client.get("/").text), "card-two"))
    commands = text_of(by_id(read_html(client.get("/incident?id=two").text), "commands"))
    assert "silence add" in commands, "a mute is not ended by a command"


def test_a_notification_is_one_row_with_its_newest_outcome(warehouse: Path) -> None:
    """The canary is left out, and so is what is older than the period; an incident may be gone from the tables."""
    page = shown(deliveries.PAGE, warehouse)
    assert [text_of(row) for row in rows_of(page, "deliveries")] == [
        "10:59:00 ✖ REFUSED chat route all split_view - firing HTTP 404, 7 ms",
        "10:58:00 ◌ SILENCED no receiver route all starved_queue critical billing test firing - now",
        "10:57:00 ✓ DELIVERED pager route prod starved_queue critical billing prod firing HTTP 202, 41 ms attempt 2",
    ]
    assert "✖ 1 REFUSED" in text_of(page)
    filters: list[tuple[dict[str, str], int]] = [
        ({"receiver": "pager"}, 1),
        ({"outcome": "REFUSED"}, 1),
        ({"cluster": "test"}, 1),
        ({"kind": "starved_queue"}, 2),
        ({"group": "billing"}, 2),
        ({"since": "7d"}, 4),
        ({"receiver": "nobody"}, 0),
    ]
    for asked, number in filters:
        body = text_of(shown(deliveries.PAGE, warehouse, **asked))
        assert f"{number} notification" in body, asked
        assert ("No notification matches" in body) == (not number), asked
    by_latency = rows_of(shown(deliveries.PAGE, warehouse, sort="-latency"), "deliveries")
    assert [text_of(cells_of(row)[6]) for row in by_latency] == ["HTTP 202, 41 ms attempt 2", "HTTP 404, 7 ms", "-"]


def test_headings_sort_a_table_both_ways_and_then_not(tmp_path: Path) -> None:
    """The URL has the order, the filter keeps it, and rows without a value come last."""
    rows = [assignment(number, "OK", consumer_group="big") for number in range(3)]
    rows += [assignment(0, "UNOWNED", consumer_group="wrong"), assignment(0, "OK", consumer_group="small")]
    write(tmp_path, {"assignments": rows})

    def names(**asked: str) -> list[str]:
        return [
            text_of(cells_of(row)[0]).split()[0] for row in rows_of(shown(groups.PAGE, tmp_path, **asked), "groups")
        ]

    def heading(**asked: str) -> Element:
        page = shown(groups.PAGE, tmp_path, **asked)
        return next(one for one in walk(page) if one.get("scope") == "col" and text_of(one).startswith("Queues"))

    assert names() == ["wrong", "big", "small"]
    assert names(sort="-queues") == ["big", "wrong", "small"]
    assert names(sort="queues") == ["wrong", "small", "big"]
    assert names(sort="since") == ["wrong", "big", "small"]
    links = [links_of(heading(q="i", **asked)) for asked in ({}, {"sort": "-queues"}, {"sort": "queues"})]
    assert links == [["/groups?q=i&sort=-queues"], ["/groups?q=i&sort=queues"], ["/groups?q=i"]]
    orders = [heading(**asked).get("aria-sort") for asked in ({}, {"sort": "-queues"}, {"sort": "queues"})]
    assert orders == ["", "descending", "ascending"]
    form = by_id(shown(groups.PAGE, tmp_path, sort="-queues"), "groups-filter")
    assert [one["value"] for one in walk(form) if one.get("type") == "hidden"] == ["-queues"]
    suggested = [one["value"] for one in walk(by_id(form, "groups-filter-q-names")) if one.name == "option"]
    assert suggested == ["big", "small", "wrong"]


def test_brokers_are_sorted_by_name_or_avoidance(tmp_path: Path) -> None:
    changes = [health(MINUTE, number, broker_name=f"broker-{number}") for number in (1, 3, 2)]
    about = {**OF_NO_GROUP, "kind": "broker_no_data", "broker_name": "broker-z"}
    write(tmp_path, {"broker_health": changes, "alerts": [alert("a", **about)]})
    order = [row.removeprefix("prod/broker-") for row in ids(shown(brokers.PAGE, tmp_path, sort="-broker"), "brokers")]
    assert order == ["z", "3", "2", "1"]
    order = [row.removeprefix("prod/broker-") for row in ids(shown(brokers.PAGE, tmp_path, sort="avoiding"), "brokers")]
    assert order == ["z", "1", "2", "3"]
