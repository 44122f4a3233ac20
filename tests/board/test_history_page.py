"""The history page: bands, moments, the matrix as of one of them, and the same in words."""

from pathlib import Path
from typing import Any

import pytest

from streaming.board.pages.history import MOST_CHANGES, MOST_LANES, PAGE, Times, bands_chart, read_times
from streaming.store.store import History
from tests.board.components import by_id, links_of, rows_of, text_of, walk
from tests.board.tables import MINUTE, NOW_MS, alert, assignment, member, shown, view_of, write
from tests.board.test_group_page import A, B, rows_by_queue

HOUR = 60 * MINUTE


def step(queue_id: int, minutes_ago: int, verdict: str, owner: str | None = A, **columns: Any) -> dict[str, Any]:
    at_ms = NOW_MS - minutes_ago * MINUTE
    owners = columns.pop("observed", [owner] if owner and verdict == "OK" else [])
    return assignment(
        queue_id, verdict, planned_owner=owner, observed_owners=owners, changed_at=at_ms, since=at_ms, **columns
    )


STEPS = [
    step(0, 180, "OK"),
    step(1, 180, "OK", B),
    step(0, 40, "UNOWNED", None),
    step(1, 40, "UNOWNED", None),
    step(0, 30, "OK"),
    step(1, 20, "OK", B),
]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    members = [
        member(A, "10.0.0.1:50", changed_at=NOW_MS - 180 * MINUTE),
        member(B, "10.0.0.2:50", changed_at=NOW_MS - 180 * MINUTE),
        member(B, "10.0.0.2:50", changed_at=NOW_MS - 10 * MINUTE, change="LEFT"),
    ]
    incident = alert("s", "RESOLVED", 25 * MINUTE, started_at=NOW_MS - 40 * MINUTE)
    return write(
        tmp_path_factory.mktemp("warehouse"), {"assignments": STEPS, "memberships": members, "alerts": [incident]}
    )


def times(warehouse: Path, since_ms: int = HOUR, at_ms: int = NOW_MS, topic: str = "", queue: str = "") -> Times:
    place = {"cluster": "prod", "consumer_group": "billing", "topic": topic, "queue": queue, "known_until_ms": NOW_MS}
    return read_times(History(warehouse), {**place, "from_ms": NOW_MS - since_ms, "until_ms": NOW_MS, "at_ms": at_ms})


def ago(minutes: int) -> int:
    return NOW_MS - minutes * MINUTE


def test_spans_moments_queues_and_changes_of_a_period(warehouse: Path) -> None:
    """Spans have no gap and begin with what was before; changes at one time are one with all its queues."""
    spans = [span for span in times(warehouse)["spans"] if span.queue == "broker-a:0"]
    assert [(span.verdict, span.start_ms, span.end_ms) for span in spans] == [
        ("OK", ago(30), NOW_MS),
        ("UNOWNED", ago(40), ago(30)),
        ("OK", ago(60), ago(40)),
    ]
    assert times(warehouse)["moments"] == [ago(40), ago(30), ago(20)]

    def verdicts(at_ms: int) -> list[str]:
        return [queue.verdict for queue in times(warehouse, at_ms=at_ms)["queues"]]

    assert verdicts(ago(41)) == ["OK", "OK"]
    assert verdicts(ago(40)) == ["UNOWNED", "UNOWNED"]
    assert verdicts(ago(25)) == ["OK", "UNOWNED"]
    newest = times(warehouse)["changes"]["newest"]
    assert [
        (row["time_ms"], row["way"], row["before"], row["after"], row["queues"], row["owners"]) for row in newest
    ] == [
        (ago(20), "became", "UNOWNED", "OK", ["broker-a:1"], [B]),
        (ago(30), "became", "UNOWNED", "OK", ["broker-a:0"], [A]),
        (ago(40), "became", "OK", "UNOWNED", ["broker-a:0", "broker-a:1"], []),
    ]


@pytest.mark.parametrize(
    ("at", "before", "after"),
    [(NOW_MS, ago(20), None), (ago(30), ago(40), ago(20)), (ago(40), None, ago(30)), (ago(55), None, ago(40))],
)
def test_the_nearest_changes_are_found_on_both_sides_and_leave_the_moment_itself_out(
    warehouse: Path, at: int, before: int | None, after: int | None
) -> None:
    found = times(warehouse, at_ms=at)
    assert (found["before_ms"], found["after_ms"]) == (before, after)


def test_steps_at_one_time_single_changes_and_names_with_tags(tmp_path: Path) -> None:
    """Of two steps at one time, the later batch holds."""
    write(tmp_path, {"assignments": [step(0, 10, "UNOWNED", None)]})
    write(tmp_path, {"assignments": [step(0, 10, "OK")]}, 1)
    assert [queue.verdict for queue in times(tmp_path)["queues"]] == ["OK"]
    write(tmp_path / "1", {"assignments": [step(0, 180, "OK"), step(0, 10, "NOT_CONSUMED")]})
    assert "1 change, newest first" in text_of(shown(PAGE, tmp_path / "1", group="billing", since="1h"))
    evil = "<a href='https://example.org'>x</a>@1"
    write(tmp_path / "2", {"assignments": [step(0, 50, "OK", evil)], "memberships": [member(evil, "10.0.0.1:1")]})
    page = shown(PAGE, tmp_path / "2", group="billing", since="1h")
    assert evil in text_of(by_id(page, "bands"))
    assert not [link for link in links_of(page) if "example.org" in link]


def test_queues_that_move_from_client_to_client_are_changes_though_their_verdict_stays(tmp_path: Path) -> None:
    """The plan's moves, and a puller that changed under the same plan."""
    steps = [
        step(0, 180, "OK"),
        step(1, 180, "OK"),
        step(2, 180, "MISPLACED", observed=[B]),
        step(0, 20, "OK", B),
        step(1, 20, "OK", B),
        step(2, 10, "MISPLACED", observed=["C@3"]),
    ]
    page = shown(PAGE, write(tmp_path, {"assignments": steps}), group="billing", since="1h")
    rows = [text_of(row) for row in rows_of(page, "changes")]
    assert rows == [
        f"10:50:00 → pulled by: {B} → C@3 broker-a:2 of orders",
        f"10:40:00 → planned owner: {A} → {B} broker-a:0-1 of orders",
    ]
    (label,) = [one["aria-label"] for one in walk(page) if one.get("role") == "img"]
    assert "3 moved to another client" in label


def test_changes_are_of_all_queues_and_say_what_is_left_out(tmp_path: Path) -> None:
    """More queues than lanes, each with a change of its own: all are counted, the newest are listed."""
    queues = MOST_LANES + MOST_CHANGES
    steps = [step(number, 600, "OK") for number in range(queues)]
    steps += [step(number, 1 + number // 2, "OK", B) for number in range(queues)]
    steps.append(step(queues - 1, 0, "NOT_CONSUMED", B))
    page = shown(PAGE, write(tmp_path, {"assignments": steps}), group="billing", since="6h")
    assert times(tmp_path, 6 * HOUR)["changes"]["number"] == queues // 2 + 1
    assert f"{queues} moved to another client" in str([one.get("aria-label") for one in walk(page)])
    few = [step(0, 59 - number % 59, ("OK", "NOT_CONSUMED")[number % 2], topic=f"t{number}") for number in range(70)]
    other = write(tmp_path / "few", {"assignments": few})
    assert "newest 60 of 70 changes" in text_of(shown(PAGE, other, group="billing", since="1h"))


def test_table_bars_slider_and_buttons_lead_to_the_changes(warehouse: Path) -> None:
    """A time before the period moves the period to it."""
    page = shown(PAGE, warehouse, group="billing", since="1h")
    rows = [text_of(row) for row in rows_of(page, "changes")]
    assert rows == [
        f"10:50:00 ▼ left {B}",
        f"10:40:00 ● OK (was UNOWNED) broker-a:1 of orders; planned owner: {B}",
        f"10:30:00 ● OK (was UNOWNED) broker-a:0 of orders; planned owner: {A}",
        "10:20:00 ✖ UNOWNED (was OK) broker-a:0-1 of orders",
    ]
    pictures = [one["aria-label"] for one in walk(page) if one.get("role") == "img"]
    assert pictures == [
        "2 queues from 10:00:00 to 11:00:00 UTC: 2 became OK and 2 became UNOWNED. The table below lists them."
    ]
    page = PAGE.read(view_of(warehouse, group="billing", since="1h"))
    starved = [bar for bar in bands_chart(page).bars if bar.name == "UNOWNED"]
    assert {(bar.hatch, bar.text) for bar in starved} == {("cross", "UNOWNED")}
    assert starved[0].href == f"/history?group=billing&since=1h&at={ago(40)}"
    assert [bar.href for bar in bands_chart(page).bars if bar.name == "incident"] == ["/incident?id=s"]
    drawn = by_id(shown(PAGE, warehouse, group="billing", since="1h"), "bands")
    assert starved[0].href in [element.get("data-href") for element in walk(drawn)]
    page = shown(PAGE, warehouse, group="billing", since="1h", at=str(ago(30)))
    field = by_id(page, "history-at")
    limits = [field[name] for name in ("type", "min", "max", "value")]
    assert limits == ["range", str(ago(60)), str(NOW_MS), str(ago(30))]
    form = by_id(page, "history-moment")
    assert form["data-moments"] == ",".join(map(str, (ago(40), ago(30), ago(20))))
    assert links_of(form) == [
        f"/history?group=billing&since=1h&at={ago(40)}",
        f"/history?group=billing&since=1h&at={ago(20)}",
        "/history?group=billing&since=1h",
    ]
    assert list(rows_by_queue(page)) == ["broker-a:0", "broker-a:1"]
    assert "Queues and clients at 10:30:00" in text_of(page)
    page = shown(PAGE, warehouse, group="billing", since="1h", at="2h")
    field = by_id(page, "history-at")
    assert (field["min"], field["max"]) == (str(ago(150)), str(ago(90)))
    assert "2 queues: 2 OK" in text_of(page)
    page = shown(PAGE, warehouse, group="billing", since="1h", topic="orders", queue="broker-a:1")
    assert list(rows_by_queue(page)) == ["broker-a:1"]
    assert {span.queue for span in times(warehouse, queue="broker-a:1")["spans"]} == {"broker-a:1"}
    page = shown(PAGE, warehouse, group="billing", since="1h", at="2000h")
    assert "No data for these queues in this period." in text_of(page)
    assert "No queue was known at this time." in text_of(page)


def test_of_many_queues_those_that_were_wrong_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    steps = [step(number, 30, "OK") for number in range(MOST_LANES + 20)]
    steps.append(step(MOST_LANES + 15, 20, "NOT_CONSUMED"))
    found = times(write(tmp_path, {"assignments": steps}))
    assert found["lanes"] == MOST_LANES + 20
    assert len({span.queue for span in found["spans"]}) == MOST_LANES
    assert f"broker-a:{MOST_LANES + 15}" in {span.queue for span in found["spans"]}
    page = shown(PAGE, tmp_path, group="billing", since="1h")
    assert f"{MOST_LANES} of {MOST_LANES + 20} queues, problems first" in text_of(page)
