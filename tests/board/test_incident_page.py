"""An incident's page: its story in order, what it does not know, and lines to type."""

import json
from pathlib import Path
from typing import Any

import pytest

from streaming.board.page import View
from streaming.board.pages import group as group_page
from streaming.board.pages.incident import PAGE
from tests.board.components import by_id, head_of, links_of, read_html, text_of
from tests.board.tables import MINUTE, NOW_MS, OF_NO_GROUP, alert, assignment, health, history_of, member, shown, write
from tests.history.warehouse_stage import delivery


def acknowledgement(incident_id: str, minutes_ago: int) -> dict[str, Any]:
    by_ada = {"acknowledged_by": "ada", "note": "restarting"}
    return {"incident_id": incident_id, **by_ada, "acknowledged_at": NOW_MS - minutes_ago * MINUTE}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    began = NOW_MS - 9 * MINUTE
    step = {"started_at": began, "kind": "starved_queue", "client_id": "c@1"}
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "alerts": [
                alert("abc-1", "PENDING", 9 * MINUTE, **step, reason="first_sign"),
                alert(
                    "abc-1", "FIRING", 8 * MINUTE, **step, reason="hold_over", evidence='{"client_addr": "10.0.0.1:5"}'
                ),
                alert("effect-1", "FIRING", 7 * MINUTE, inhibited_by="abc-1", kind="double_consumed_queue"),
            ],
            "assignments": [
                assignment(0, "OK", changed_at=began - 30 * MINUTE),
                assignment(1, "OK", changed_at=began - 30 * MINUTE),
                assignment(0, "UNOWNED", planned_owner=None, observed_owners=[], changed_at=began),
                assignment(1, "UNOWNED", planned_owner=None, observed_owners=[], changed_at=began),
            ],
            "memberships": [
                member(
                    "c@1",
                    "10.0.0.1:5",
                    client_version="4.9.8",
                    strategy=None,
                    change="EXPIRED",
                    last_heartbeat=began - MINUTE,
                    changed_at=began - 1_000,
                )
            ],
            "alert_deliveries": [
                delivery("abc", "DELIVERED", 0, delivered_at=NOW_MS - 8 * MINUTE + 500, latency_ms=41, route="prod")
            ],
            "acknowledgements": [acknowledgement("abc-1", 5)],
        },
    )


def test_the_story_goes_from_the_first_sign_to_the_last_word(warehouse: Path) -> None:
    """One line a moment and change: two queues that made the same step are one."""
    story = text_of(by_id(shown(PAGE, warehouse, id="abc-1"), "story-table"))
    order = [
        "EXPIRED c@1 at broker-a (10.0.0.1:5), 4.9.8",
        "orders broker-a:0-1 OK → UNOWNED: planned owner c@1 → none; consumed by c@1 → none",
        "PENDING first seen; waiting to confirm",
        "FIRING confirmed; broker-a:0-1",
        "DELIVERED pager firing, attempt 1, 41 ms, HTTP 202, route prod",
        "acknowledged ada restarting",
    ]
    places = [story.find(line) for line in order]
    assert -1 not in places, story
    assert places == sorted(places)


def test_head_advice_effects_evidence_times_and_commands(warehouse: Path) -> None:
    """An effect links to its cause; the beginning of an id is enough."""
    body = shown(PAGE, warehouse, id="abc-1")
    assert text_of(head_of(body)) == "starved_queue ▲ FIRING critical began 9 min ago ● acknowledged by ada"
    assert "Fix: Advice of abc-1." in text_of(body)
    assert "/incident?id=effect-1" in links_of(by_id(body, "explanations"))
    assert "10.0.0.1:5" in text_of(by_id(body, "evidence"))
    commands = text_of(by_id(body, "commands"))
    assert "balancewatch explain abc-1" in commands
    assert "--match kind=starved_queue --match cluster=prod --match consumer_group=billing" in commands
    body = shown(PAGE, warehouse, id="effect-1")
    assert "⤷ Inhibited by starved_queue in group billing, topic orders . Fix that first" in text_of(body)
    assert "/incident?id=abc-1" in links_of(body)
    assert "None sent:" in text_of(by_id(body, "explanations"))
    assert "starved_queue" in text_of(shown(PAGE, warehouse, id="abc"))
    facts = text_of(by_id(shown(PAGE, warehouse, id="abc-1"), "facts"))
    assert "Not consumed since 10:51:00 Fired 10:52:00" in facts
    group = text_of(shown(group_page.PAGE, warehouse, group="billing"))
    assert "starved_queue ▲ FIRING not consumed since 10:51:00 ● acknowledged by ada" in group
    assert "UNOWNED certain since" in group


def test_static_labels_are_a_fact(warehouse: Path) -> None:
    labels = [({"consumer_group": ("bill*",)}, {"team": "payments", "tier": "1"})]
    view = View(history_of(warehouse), {"id": "abc-1"}, NOW_MS, labels=labels)
    assert "Labels team=payments tier=1" in text_of(by_id(read_html(PAGE.body(view)), "facts"))


def test_producers_are_shortened_and_an_incident_of_a_cluster_names_it(tmp_path: Path) -> None:
    broken = {**OF_NO_GROUP, "kind": "broker_isolated", "broker_name": "broker-b"}
    changes = [health(5 * MINUTE - number * 1_000, number % 3, broker_name="broker-b") for number in range(30)]
    warehouse = write(tmp_path / "w", {"alerts": [alert("b-1", **broken)], "broker_health": changes})
    story = text_of(by_id(shown(PAGE, warehouse, id="b-1"), "story-table"))
    assert story.count("broker-b") < 6
    assert "27 more changes of the number of producers that avoid it." in story
    row = alert("dark-1", kind="cluster_no_data", **OF_NO_GROUP)
    commands = text_of(by_id(shown(PAGE, write(tmp_path / "1", {"alerts": [row]}), id="dark-1"), "commands"))
    assert "balancewatch silence add --match kind=cluster_no_data --match cluster=prod --for 2h" in commands


@pytest.mark.parametrize("evidence", ["[1, 2]", "no json {", '"words"', "null", "7"])
def test_evidence_that_is_no_object_is_shown_as_it_stands(evidence: str, tmp_path: Path) -> None:
    warehouse = write(tmp_path / "w", {"alerts": [alert("odd-1", evidence=evidence)]})
    assert evidence in text_of(by_id(shown(PAGE, warehouse, id="odd-1"), "evidence"))


@pytest.mark.parametrize(
    ("acknowledged", "silenced_for_ms", "offered"),
    [
        (False, None, ["explain", "ack", "silence add"]),
        (True, None, ["explain", "silence add"]),
        (False, MINUTE, ["explain", "ack", "silence end s-1"]),
        (True, MINUTE, ["explain", "silence end s-1"]),
        (False, -MINUTE, ["explain", "ack", "silence add"]),
    ],
)
def test_ack_and_silence_are_offered_only_where_they_are_not_done(
    acknowledged: bool, silenced_for_ms: int | None, offered: list[str], tmp_path: Path
) -> None:
    rows: dict[str, list[dict[str, Any]]] = {"alerts": [alert("a-1")]}
    if acknowledged:
        rows["acknowledgements"] = [acknowledgement("a-1", 1)]
    if silenced_for_ms is not None:
        silence = {"silence_id": "s-1", "created_by": "bob", "comment": "deploy", "starts_at": NOW_MS - 4 * MINUTE}
        matchers = json.dumps({"kind": ["starved_queue"]})
        rows["silences"] = [
            {**silence, "matchers": matchers, "ends_at": NOW_MS + silenced_for_ms, "changed_at": NOW_MS - 4 * MINUTE}
        ]
    body = shown(PAGE, write(tmp_path / "w", rows), id="a-1")
    lines = text_of(by_id(body, "commands")).split("balancewatch ")[1:]
    assert len(lines) == len(offered)
    assert all(line.startswith(begin) for line, begin in zip(lines, offered, strict=True)), lines
    head = text_of(head_of(body))
    assert ("acknowledged by ada" in head, "silenced by bob until 11:01:00" in head) == (
        acknowledged,
        silenced_for_ms == MINUTE,
    )
