"""The overview: what it says of the tables, from rows written by hand."""

from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from streaming.board.pages import alerts
from streaming.board.pages.overview import PAGE
from streaming.text.times import DAY
from tests.board.components import by_id, head_of, links_of, text_of, walk
from tests.board.tables import MINUTE, NOW_MS, alert, assignment, shown, write


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "alerts": [
                alert("mild", severity="warning", ago_ms=MINUTE),
                alert("old", ago_ms=9 * MINUTE, kind="duplicate_client_id"),
                alert("new", ago_ms=2 * MINUTE),
                alert("effect", inhibited_by="old"),
                alert("effect-2", inhibited_by="old"),
                alert("over", "RESOLVED"),
                alert("soon", "PENDING"),
                alert("canary", cluster="balancewatch_canary"),
                alert("dark", "FIRING", kind="broker_no_data", consumer_group=None, broker_name="broker-b"),
            ],
            "assignments": [
                assignment(0, "UNOWNED"),
                assignment(1, "UNKNOWN", completeness=0.5),
                assignment(2, "OK"),
                assignment(0, "OK", consumer_group="calm"),
                assignment(0, "OK", broker_name="broker-b", consumer_group="calm"),
            ],
            "acknowledgements": [
                {"incident_id": "new", "acknowledged_by": "ada", "note": "on it", "acknowledged_at": NOW_MS - MINUTE}
            ],
        },
    )


def test_causes_counts_and_clusters(warehouse: Path) -> None:
    """Causes come most severe and newest first; the canary is left out."""
    firing = by_id(shown(PAGE, warehouse), "firing")
    cards = [link.removeprefix("/incident?id=") for link in links_of(firing) if link.startswith("/incident")]
    assert cards == ["new", "dark", "old", "mild"]
    assert "Inhibits 2 starved_queue." in text_of(by_id(firing, "card-old"))
    card = text_of(by_id(firing, "card-new"))
    assert "▲ FIRING starved_queue group billing in prod critical fired 2 min ago" in card
    assert "Fix: Advice of new." in card
    assert "acknowledged by ada" in card
    assert "Inhibits" not in card
    counts = text_of(head_of(shown(PAGE, warehouse)))
    assert counts == "Overview ▲ 4 firing 2 inhibited 1 pending 1 resolved in the last day"
    body = shown(PAGE, warehouse)
    assert text_of(by_id(body, "clusters-table-prod")) == "prod ? 1 of 2 , missing broker-b 50% ? 1 of 5 1 min ago"
    assert text_of(by_id(body, "groups-table-prod/billing")) == "billing prod 1 UNOWNED, 1 UNKNOWN 3"
    assert "calm" not in text_of(by_id(body, "groups"))


def test_what_is_said_when_nothing_fires_and_when_much_does(tmp_path: Path) -> None:
    warehouse = write(tmp_path / "w", {"assignments": [assignment(0, "OK")]})
    body = shown(PAGE, warehouse)
    assert text_of(by_id(body, "notice")) == "✓ No alert is firing. Last data 1 min ago ."
    assert "Planned owners consume all judged queues." in text_of(body)
    text = text_of(shown(PAGE, write(tmp_path / "w1", {})))
    assert "The tables are empty." in text
    assert "No alert is firing" not in text
    rows = [alert(f"one-{number:03}", ago_ms=number) for number in range(1, 101)]
    firing = by_id(shown(PAGE, write(tmp_path / "w2", {"alerts": rows})), "firing")
    assert sum(link.startswith("/incident") for link in links_of(firing)) == 20
    assert "80 more; all 100" in text_of(firing)


def test_each_count_leads_to_as_many_incidents_and_the_canary_shows_that_data_come(tmp_path: Path) -> None:
    """Inhibited ones and those that never fired are counted the same on both sides."""
    warehouse = write(
        tmp_path / "w",
        {
            "alerts": [
                alert("a"),
                alert("b"),
                alert("effect", inhibited_by="a"),
                alert("effect-over", "RESOLVED", inhibited_by="a"),
                alert("over", "RESOLVED"),
                alert("over-edge", "RESOLVED", DAY),
                alert("never-fired", "RESOLVED", fired_at=None),
                alert("effect-soon", "PENDING", inhibited_by="a"),
                alert("soon", "PENDING"),
            ]
        },
    )
    head = head_of(shown(PAGE, warehouse, NOW_MS - 20_000))
    found = [(text_of(one), one["href"]) for one in walk(head) if one.name == "a"]
    assert len(found) == 4
    for text, link in found:
        asked = dict(parse_qsl(link.partition("?")[2]))
        note = text_of(head_of(shown(alerts.PAGE, warehouse, NOW_MS - 20_000, **asked)))
        number = next(word for word in text.split() if word.isdigit())
        assert note.split()[1] == number, (text, note)
    canary = assignment(0, "UNOWNED", cluster="balancewatch_canary", changed_at=NOW_MS)
    body = shown(PAGE, write(tmp_path / "1", {"assignments": [assignment(0, "OK"), canary]}), NOW_MS + 1_000)
    assert "Last data 1 s ago" in text_of(by_id(body, "notice"))
    assert "balancewatch_canary" not in text_of(body)
