"""The story of an incident: what it holds, in which order, and how it reads."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.history.incident_story import MOST_SHOWN, REASONS, newest_incident, read_story
from streaming.store.alerts import UnknownIncidentError, find_incident
from streaming.store.store import History
from tests.history.warehouse_stage import START_MS, Row, alert, assignment, delivery, member, rows_of, run, write
from tests.queries.logs import one_batch
from udfs.alerts.life import Reason
from udfs.alerts.rulebook import CANARY_CLUSTER

UNOWNED = {"planned_owner": None, "observed_owners": []}


def batches() -> Iterator[dict[str, list[Row]]]:
    """A duplicate ClientId, the queues it starves, and how both end."""
    yield {
        "assignments": [assignment(queue, "OK", -600) for queue in (0, 1)],
        "memberships": [member("A@1", "JOINED", -600), member("Z@1", "JOINED", -600, consumer_group="audit")],
    }
    yield {
        "memberships": [
            member("A@1", "JOINED", 1, client_addr="h2:5"),
            member("A@1", "JOINED", 9, client_addr="h2:6", broker_name="broker-b"),
        ],
        "alerts": [alert("twin", "FIRING", 5, kind="duplicate_client_id", queues=[], cause="duplicate_client_id")],
    }
    yield {
        "assignments": [assignment(queue, "UNOWNED", 50, **UNOWNED) for queue in (0, 1)],
        "alerts": [
            alert("hole", "PENDING", 50, reason="first_sign", inhibited_by="twin-1"),
            alert("hole", "FIRING", 55, inhibited_by="twin-1", completeness=0.8),
        ],
        "alert_deliveries": [
            delivery("twin", "PENDING", 6),
            delivery("twin", "DELIVERED", 7, reason="Accepted"),
            delivery("hole", "INHIBITED", 56, receiver="*", reason="twin-1"),
        ],
        "acknowledgements": [
            {"incident_id": "twin-1", "acknowledged_by": "ada", "note": "at it", "acknowledged_at": START_MS + 60_000}
        ],
        "silences": [silence("5117e4ce", {"consumer_group": ["bill*"]}), silence("0ther000", {"cluster": ["x"]})],
    }
    yield {
        "assignments": [assignment(queue, "OK", 100) for queue in (0, 1)],
        "memberships": [member("A@1", "LEFT", 95, client_addr="h2:5")],
        "alerts": [
            alert("hole", "RESOLVED", 120, reason="recovered", summary="Over after 120 s.", advice="Nothing to do."),
            alert("twin", "RESOLVED", 130, reason="recovered", kind="duplicate_client_id", advice="Nothing to do."),
        ],
    }
    yield {"memberships": [member("A@1", "CHANGED", 700)], "assignments": [assignment(0, "NOT_CONSUMED", 700)]}


def silence(silence_id: str, matchers: dict[str, list[str]]) -> Row:
    return {
        "silence_id": silence_id,
        "matchers": json.dumps(matchers),
        "created_by": "ada",
        "comment": "release",
        "starts_at": START_MS + 50_000,
        "ends_at": START_MS + 90_000,
        "changed_at": START_MS,
    }


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("warehouse"), *batches())


def test_explain_prints_every_part_in_text_and_json(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The queues were consumed last before their verdict was certain; other kinds have one time only."""
    reported = run(warehouse, "explain", "hole").stdout
    assert "  not consumed from: 2025-06-15 15:06:40 UTC until 2025-06-15 15:08:40 UTC" in reported
    assert "  verdict certain since: 2025-06-15 15:07:30 UTC\n" in reported
    (row,) = rows_of(warehouse, "owner", "orders", "broker-a:0", "--at", "2025-06-15T15:07:40Z")
    assert row["since"] == "2025-06-15T15:07:30.000Z"
    assert "verdict certain since" not in run(warehouse, "explain", "twin").stdout
    monkeypatch.setenv("COLUMNS", "120")
    reported = run(warehouse, "explain", "hole").stdout
    assert reported.startswith("RESOLVED  starved_queue  critical  cluster c, group billing, topic orders\n")
    for line in (
        "  fix: Restart it.",
        "  not notified: inhibited by another incident (twin-1)",
        "  15:07:30  PENDING  first seen; waiting to confirm",
        "  15:06:41  JOINED  A@1 at broker-a (h2:5) and broker-b (h2:6), 5.3.3 AVG",
        "  15:07:30  orders broker-a:0-1 OK → UNOWNED: planned owner A@1 → none; consumed by A@1 → none",
        "  15:07:36  INHIBITED  no receiver firing, route all: twin-1",
    ):
        assert line in reported
    assert "Explains" not in reported
    assert max(len(line) for line in reported.splitlines()) <= 120
    assert "Inhibits, so these do not page: 1 starved_queue" in run(warehouse, "explain", "twin").stdout
    story = json.loads(run(warehouse, "explain", "hole-1", "--format", "json").stdout)
    assert story["steps"][0]["at"] == "2025-06-15T15:07:30.000Z"
    assert (story["started_at"], story["ended_at"]) == ("2025-06-15T15:06:40.000Z", "2025-06-15T15:08:40.000Z")
    assert story["queue_changes"][0]["verdict_before"] == "OK"
    twin = json.loads(run(warehouse, "explain", "twin-1", "--format", "json").stdout)
    assert twin["deliveries"][1]["latency_ms"] == 12
    result = run(warehouse, "explain", "nope")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "INCIDENT 'nope' is not in the alerts table" in result.stderr
    result = run(write(tmp_path / "empty"), "explain")
    assert (result.exit_code, result.stderr) == (1, "error: the alerts table is empty: no incident to explain\n")


def test_the_parts_of_a_story_and_words_for_every_reason(warehouse: Path) -> None:
    """The newest row has the advice of when it was open; brokers that report the same join are one change."""
    history = History(warehouse)
    story = read_story(history, "hole-1")
    assert (story.state, story.summary) == ("RESOLVED", "Over after 120 s.")
    assert (story.advice, story.queues) == ("Restart it.", ("broker-a:0", "broker-a:1"))
    assert (story.started_ms, story.fired_ms, story.ended_ms) == (START_MS, START_MS + 5_000, START_MS + 120_000)
    assert story.evidence == {"client_addr": "10.0.0.1:5"}
    assert [(step["at_ms"] - START_MS, step["state"], step["why"]) for step in story.steps] == [
        (50_000, "PENDING", "first seen; waiting to confirm"),
        (55_000, "FIRING", "confirmed"),
        (120_000, "RESOLVED", "recovery confirmed"),
    ]
    assert [(one["change"], one["client_id"], one["channels"]) for one in story.members] == [
        ("JOINED", "A@1", [("broker-a", "h2:5"), ("broker-b", "h2:6")]),
        ("LEFT", "A@1", [("broker-a", "h2:5")]),
    ]
    assert [(one["queue"], one["verdict_before"], one["verdict"]) for one in story.queue_changes] == [
        ("broker-a:0", "OK", "UNOWNED"),
        ("broker-a:1", "OK", "UNOWNED"),
        ("broker-a:0", "UNOWNED", "OK"),
        ("broker-a:1", "UNOWNED", "OK"),
    ]
    before = {"planned_before": "A@1", "planned_owner": None, "observed_before": ["A@1"]}
    assert story.queue_changes[0].items() >= before.items()
    assert [one["incident_id"] for one in story.inhibitors] == ["twin-1"]
    twin = read_story(history, "twin-1")
    assert ([one["incident_id"] for one in twin.inhibits], twin.inhibits_by_kind) == (["hole-1"], {"starved_queue": 1})
    assert twin.inhibitors == []
    assert [(one["outcome"], one["receiver"]) for one in twin.deliveries] == [
        ("PENDING", "pager"),
        ("DELIVERED", "pager"),
    ]
    assert (twin.not_notified_reason, story.not_notified_reason) == (None, "inhibited by another incident (twin-1)")
    assert [(one["acknowledged_by"], one["note"]) for one in twin.acknowledgements] == [("ada", "at it")]
    assert [one["silence_id"] for one in twin.silences] == ["5117e4ce"]
    assert set(REASONS) == {reason.value for reason in Reason}


@pytest.mark.parametrize(
    ("rows", "reported", "paged"),
    [
        ([("FIRING", 55, True)], "Nobody consumes 2 queues.", 0),
        ([("FIRING", 55, True), ("FIRING", 70, False)], "(inhibited until 15:07:50, pages since)", 1),
        ([("PENDING", 55, True), ("PENDING", 70, False)], "(inhibited until 15:07:50)", 0),
        (
            [("PENDING", 55, True), ("PENDING", 70, False), ("FIRING", 75, False)],
            "(inhibited until 15:07:50, pages since 15:07:55)",
            1,
        ),
        ([("FIRING", 20, False), ("FIRING", 55, True)], "(paged 15:07:00; inhibited from 15:07:35)", 1),
        ([("FIRING", 55, True), ("RESOLVED", 70, False)], "Nobody consumes 2 queues.", 0),
    ],
)
def test_an_effect_that_paged_is_not_said_not_to(
    rows: list[tuple[str, int, bool]], reported: str, paged: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Explained at first and not any more, or paged before it was explained."""
    monkeypatch.setenv("COLUMNS", "200")
    effect = [
        alert("hole", state, second, inhibited_by="twin-1" if explained else None) for state, second, explained in rows
    ]
    batches = [{"alerts": [one]} for one in (alert("twin", "FIRING", 5, kind="duplicate_client_id"), *effect)]
    write(tmp_path, *batches)
    story = read_story(History(tmp_path), "twin-1")
    assert story.inhibits_by_kind == {"starved_queue": 1}
    assert story.paged_by_kind == ({"starved_queue": 1} if paged else {})
    printed = run(tmp_path, "explain", "twin-1").stdout
    title = "none; these paged before or after: 1 starved_queue" if paged else "1 starved_queue"
    assert f"Inhibits, so these do not page: {title}\n" in printed
    (line,) = (line for line in printed.splitlines() if "hole-1 starved_queue" in line)
    assert line.endswith(reported)


def test_of_a_long_story_beginning_and_end_are_reported_and_where_it_fired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    states = ["PENDING"] * 120 + ["FIRING"] * 180 + ["RESOLVED"]
    rows = [alert("one", state, second, reason=None) for second, state in enumerate(states)]
    write(tmp_path, {"alerts": rows})
    story = read_story(History(tmp_path), "one-1")
    seconds = [(step["at_ms"] - START_MS) // 1000 for step in story.steps]
    assert seconds == [*range(100), 120, *range(201, 301)]
    assert story.left_out == {"steps": 100}
    reported = run(tmp_path, "explain", "one-1").stdout
    steps = reported.split("Steps, UTC\n")[1].split("\n\n")[0].splitlines()
    assert (len(steps), steps[6].split()[1], steps[7].split()[1]) == (15, "288", "FIRING")
    assert (steps[8], steps[-1].split()[1]) == ("  ...", "RESOLVED")


def test_why_nobody_was_reported_when_the_log_is_silent(tmp_path: Path) -> None:
    history = History(write(tmp_path, {"alerts": [alert("one", "PENDING", 5), alert("two", "FIRING", 5)]}))
    reasons = [read_story(history, incident).not_notified_reason for incident in ("one-1", "two-1")]
    assert reasons == [
        "it never fired; PENDING sends no notification",
        "no row in the delivery log: no relay has run since it fired",
    ]


def test_long_open_and_circular_stories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning of an id is enough if it is of one incident alone."""
    history = History(
        write(tmp_path, {"alerts": [alert("one", "FIRING", 5)]}, {"memberships": [member("A@1", "LEFT", 9999)]})
    )
    assert [one["change"] for one in read_story(history, "one-1").members] == ["LEFT"]
    assert read_story(history, "one-1").to_ms is None
    rows: list[Row] = [member(f"A@{number}", "JOINED", number % 50) for number in range(MOST_SHOWN + 7)]
    story = read_story(
        History(write(tmp_path / "1", {"alerts": [alert("one", "FIRING", 60)], "memberships": rows})), "one-1"
    )
    assert (len(story.members), story.left_out) == (MOST_SHOWN, {"members": 7})
    history = History(write(tmp_path / "2", {"alerts": [alert("abc", "FIRING", 5), alert("abd", "FIRING", 5)]}))
    assert find_incident(history, "abc") == "abc-1"
    with pytest.raises(UnknownIncidentError, match=r"'ab' is a prefix of several: abc-1 .FIRING starved_queue., abd-1"):
        find_incident(history, "ab")
    with pytest.raises(UnknownIncidentError, match=r"INCIDENT 'abcd-1' is not in the alerts table; nearest: ab"):
        find_incident(history, "abcd-1")
    rows = [alert("a", "FIRING", 5, inhibited_by="b-1"), alert("b", "FIRING", 5, inhibited_by="a-1")]
    story = read_story(History(write(tmp_path / "3", {"alerts": rows})), "a-1")
    assert [one["incident_id"] for one in story.inhibitors] == ["b-1"]
    monkeypatch.setattr("streaming.history.incident_story.MOST_ROWS", 4)
    rows = [member(f"A@{number}", "JOINED", number) for number in range(9)]
    write(tmp_path / "4", {"alerts": [alert("one", "FIRING", 60)], "memberships": rows})
    members = read_story(History(tmp_path / "4"), "one-1").members
    assert [one["client_id"] for one in members] == ["A@0", "A@1", "A@7", "A@8"]


def test_the_newest_incident_and_the_health_of_a_broker(tmp_path: Path) -> None:
    rows = [
        alert("old", "FIRING", 5),
        alert("new", "FIRING", 50, fired_at=START_MS + 50_000),
        alert("effect", "FIRING", 60, fired_at=START_MS + 60_000, inhibited_by="new-1"),
        alert("over", "RESOLVED", 70, fired_at=START_MS + 65_000),
        alert("canary", "FIRING", 80, fired_at=START_MS + 80_000, cluster=CANARY_CLUSTER),
    ]
    assert newest_incident(History(write(tmp_path / "a", {"alerts": rows}))) == "new-1"
    assert newest_incident(History(write(tmp_path / "b", {"alerts": [alert("over", "RESOLVED", 9)]}))) == "over-1"
    assert newest_incident(History(write(tmp_path / "c"))) is None
    health = {"cluster": "c", "broker_name": "broker-b", "producers": 4, "unavailable_until": START_MS + 90_000}
    of_broker = {"kind": "broker_isolated", "consumer_group": None, "topic": None, "broker_name": "broker-b"}
    healths = [
        {**health, "unavailable_producers": 3, "changed_at": START_MS},
        {**health, "unavailable_producers": 1, "changed_at": START_MS, "broker_name": "broker-c"},
    ]
    write(tmp_path / "1", {"alerts": [alert("slow", "FIRING", 30, **of_broker, queues=[])], "broker_health": healths})
    (one,) = read_story(History(tmp_path / "1"), "slow-1").health
    assert (one["unavailable_producers"], one["producers"], one["until_ms"]) == (3, 4, START_MS + 90_000)


def test_the_twins_of_the_model_read_as_one_story(tmp_path: Path) -> None:
    """The rules' own rows: a second process joins under the same ClientId, queues starve, and both are told as one."""
    rows = {
        name: of_table
        for name, of_table in one_batch("twins", 1).items()
        if name in ("alerts", "assignments", "memberships")
    }
    history = History(write(tmp_path, rows))
    (starved,) = history.rows("SELECT incident_id FROM incidents WHERE kind = 'starved_queue' AND fired_at IS NOT NULL")
    story = read_story(history, starved["incident_id"])
    assert [one["kind"] for one in story.inhibitors] == ["duplicate_client_id"]
    assert {one["queue"] for one in story.queue_changes if one["verdict"] == "UNOWNED"} >= set(story.queues)
    twins = [one for one in story.members if one["client_id"] == story.client_id and one["change"] == "JOINED"]
    assert twins
    assert all(len(one["channels"]) == len({broker_name for broker_name, _ in one["channels"]}) for one in twins)
