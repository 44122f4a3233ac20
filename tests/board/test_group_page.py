"""The group page as a tree of components: every verdict in words and signs, twins, filters, pages, other moments."""

from pathlib import Path

import pytest

from streaming.board.pages.group import PAGE, QUEUES_A_PAGE
from streaming.board.url import AskedError
from tests.board.components import Element, by_id, cells_of, links_of, rows_of, text_of, walk
from tests.board.tables import MINUTE, NOW_MS, alert, assignment, member, shown, write
from udfs.groups.verdict_reason import VERDICT_REASONS

A, B = "10.0.0.1@7#11", "10.0.0.2@7#12"


MEMBERS = [member(A, "10.0.0.1:50"), member(B, "10.0.0.2:50")]
EVERY_VERDICT = [
    assignment(0, "OK", planned_owner=A, observed_owners=[A]),
    assignment(1, "UNOWNED", planned_owner=None, observed_owners=[]),
    assignment(2, "NOT_CONSUMED", planned_owner=A, observed_owners=[]),
    assignment(3, "DOUBLE_CONSUMED", planned_owner=A, observed_owners=[A, B]),
    assignment(4, "MISPLACED", planned_owner=A, observed_owners=[B]),
    assignment(5, "UNKNOWN", planned_owner=B, observed_owners=[]),
    assignment(6, "NOT_JUDGED", planned_owner=None, observed_owners=[]),
]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    starved = alert("s", queues=["broker-a:1"], inhibited_by="cause", kind="starved_queue")
    cause = alert("cause", queues=["broker-a:1"], kind="duplicate_client_id", client_id=A)
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {"assignments": EVERY_VERDICT, "memberships": MEMBERS, "alerts": [starved, cause]},
    )


def rows_by_queue(page: Element) -> dict[str, Element]:
    """Rows of the matrix."""
    return {text_of(cells_of(row)[0]): row for row in rows_of(page, "queues")}


def signs_of(node: Element) -> list[str]:
    return [text_of(element) for element in walk(node) if element.get("class").startswith("cell cell-")]


def labels_of(row: Element) -> list[str]:
    return [label for cell in cells_of(row) if (label := cell.get("aria-label"))]


@pytest.mark.parametrize(
    ("queue", "verdict", "signs", "labels"),
    [
        ("broker-a:0", "OK", ["●"], [f"{A}: planned owner, consumes it"]),
        ("broker-a:1", "UNOWNED", [], []),
        ("broker-a:2", "NOT_CONSUMED", ["○"], [f"{A}: planned owner, does not consume it"]),
        (
            "broker-a:3",
            "DOUBLE_CONSUMED",
            ["●●", "◆◆"],
            [
                f"{A}: planned owner, consumes it together with another client",
                f"{B}: consumes it together with the planned owner",
            ],
        ),
        (
            "broker-a:4",
            "MISPLACED",
            ["○", "◆"],
            [f"{A}: planned owner, does not consume it", f"{B}: consumes it without being the planned owner"],
        ),
        ("broker-a:5", "UNKNOWN", ["○"], [f"{B}: planned owner, does not consume it"]),
        ("broker-a:6", "NOT_JUDGED", [], []),
    ],
)
def test_each_verdict_is_a_word_with_its_moment_and_each_cell_a_sign_with_words(
    warehouse: Path, queue: str, verdict: str, signs: list[str], labels: list[str]
) -> None:
    row = rows_by_queue(shown(PAGE, warehouse, group="billing"))[queue]
    since = "since" if verdict in ("OK", "UNKNOWN", "NOT_JUDGED") else "certain since"
    assert f"{verdict} {since} 10:59:00" in text_of(cells_of(row)[1])
    assert signs_of(row) == signs
    assert labels_of(row) == labels


def test_the_legend_explains_every_sign_and_word_that_is_there(warehouse: Path) -> None:
    page = shown(PAGE, warehouse, group="billing")
    terms = {text_of(term) for term in walk(page) if term.name == "dt"}
    assert set(signs_of(page)) <= terms
    assert {row["verdict"] for row in EVERY_VERDICT} <= terms


def test_the_head_says_how_many_queues_are_how_and_causes_come_before_their_effects(warehouse: Path) -> None:
    said = text_of(shown(PAGE, warehouse, group="billing"))
    assert "✖ 1 UNOWNED ○ 1 NOT_CONSUMED ●● 1 DOUBLE_CONSUMED ◆ 1 MISPLACED ? 1 UNKNOWN" in said
    assert "of 7 queues; 2 ClientIds on 2 broker connections." in said
    assert said.index("duplicate_client_id") < said.index("starved_queue")
    assert "Fix: Advice of cause." in said
    assert "Advice of s." not in said


def test_a_starved_queue_leads_to_its_cause_to_its_history_and_to_the_command_that_asks_the_same(
    warehouse: Path,
) -> None:
    page = shown(PAGE, warehouse, group="billing")
    links = links_of(rows_by_queue(page)["broker-a:1"])
    assert "/incident?id=cause" in links
    assert "/history?cluster=prod&group=billing&topic=orders&queue=broker-a%3A1" in links
    assert "balancewatch owner orders broker-a:1 --group billing --cluster prod" in text_of(page)


def test_a_duplicate_client_id_is_marked_as_a_word_in_the_matrix_and_among_the_members(warehouse: Path) -> None:
    page = shown(PAGE, warehouse, group="billing")
    assert "TWIN" in text_of(next(element for element in walk(by_id(page, "queues")) if element.name == "thead"))
    assert "TWIN" in text_of(by_id(page, "members"))


def test_members_are_reported_with_version_strategy_and_addresses(warehouse: Path) -> None:
    said = text_of(by_id(shown(PAGE, warehouse, group="billing"), "members"))
    assert f"{B} 10.0.0.2:50 Java 4.9.8 AVG orders broker-a" in said


def test_a_filter_on_the_verdict_leaves_its_queues_alone(warehouse: Path) -> None:
    assert list(rows_by_queue(shown(PAGE, warehouse, group="billing", verdict="NOT_CONSUMED"))) == ["broker-a:2"]


def test_a_past_time_shows_the_state_at_that_time(tmp_path: Path) -> None:
    before = [assignment(0, "OK", planned_owner=A, observed_owners=[A], changed_at=NOW_MS - 8 * MINUTE)]
    write(tmp_path, {"assignments": before, "memberships": MEMBERS[:1]})
    write(tmp_path, {"assignments": EVERY_VERDICT, "memberships": MEMBERS[1:]}, 1)
    page = shown(PAGE, tmp_path, group="billing", at="5m")
    assert list(rows_by_queue(page)) == ["broker-a:0"]
    assert "State at 2026-11-21T10:55:00.000Z, 5 min ago." in text_of(page)
    assert "--at 2026-11-21T10:55:00.000Z" in text_of(page)


def test_many_queues_are_paged_worst_first_and_counted_by_broker(tmp_path: Path) -> None:
    queues = [assignment(number, "OK", planned_owner=A, observed_owners=[A]) for number in range(QUEUES_A_PAGE + 30)]
    queues[77] |= {"verdict": "UNOWNED", "planned_owner": None, "observed_owners": []}
    write(tmp_path, {"assignments": queues, "memberships": MEMBERS})
    first, second = (rows_by_queue(shown(PAGE, tmp_path, group="billing", page=page)) for page in ("1", "2"))
    assert (len(first), len(second)) == (QUEUES_A_PAGE, 30)
    assert next(iter(first)) == "broker-a:77"
    page = shown(PAGE, tmp_path, group="billing")
    assert "/group?group=billing&page=2" in links_of(page)
    assert " ".join(map(text_of, rows_of(page, "by-broker"))) == f"broker-a 1 {len(queues) - 1}"


def test_a_group_without_queues_says_so_and_still_lists_its_members(tmp_path: Path) -> None:
    write(tmp_path, {"memberships": MEMBERS})
    page = shown(PAGE, tmp_path, group="billing")
    assert "the group subscribes to no topic" in text_of(page)
    assert A in text_of(by_id(page, "members"))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({}, "group is missing"),
        ({"group": "biling"}, "Group 'biling' is unknown; known groups include billing."),
        ({"group": "billing", "cluster": "x"}, "Group 'billing' is unknown in cluster x; no group is known there."),
        ({"group": "billing", "topic": "x"}, "topic = 'x': choose one of orders."),
        ({"group": "billing", "verdict": "BAD"}, "verdict = 'BAD': choose one of UNOWNED, NOT_CONSUMED"),
        ({"group": "billing", "page": "0"}, "page = '0': give an integer from 1"),
        ({"group": "billing", "at": "noon"}, "at = 'noon' is not a time"),
    ],
)
def test_an_invalid_parameter_is_an_error_message(warehouse: Path, asked: dict[str, str], sentence: str) -> None:
    with pytest.raises(AskedError) as refused:
        shown(PAGE, warehouse, **asked)
    assert sentence in str(refused.value)


def test_a_group_of_two_clusters_needs_the_cluster(tmp_path: Path) -> None:
    write(tmp_path, {"assignments": [assignment(0, "OK"), assignment(0, "OK", cluster="test")]})
    with pytest.raises(AskedError, match="in clusters prod, test; add cluster="):
        shown(PAGE, tmp_path, group="billing")
    assert "group in cluster test" in text_of(shown(PAGE, tmp_path, group="billing", cluster="test"))


def test_more_members_than_the_table_holds_are_counted_with_the_command_that_has_them(tmp_path: Path) -> None:
    many = [member(f"10.0.1.{number}@7", f"10.0.1.{number}:5") for number in range(40)]
    page = shown(PAGE, write(tmp_path, {"memberships": many}), group="billing")
    assert "30 of 40 clients" in text_of(by_id(page, "members-panel"))
    assert "10 more: balancewatch members --current --group billing --cluster prod" in text_of(page)


def test_why_a_verdict_is_unknown_stands_beside_it_and_is_explained_below(tmp_path: Path) -> None:
    rows = [
        assignment(0, "OK", planned_owner=A, observed_owners=[A]),
        assignment(1, "UNKNOWN", planned_owner=B, observed_owners=[], verdict_reason="not_asked"),
    ]
    page = shown(PAGE, write(tmp_path, {"assignments": rows, "memberships": MEMBERS}), cluster="prod", group="billing")
    assert "(not_asked)" in text_of(rows_by_queue(page)["broker-a:1"])
    assert "(" not in text_of(cells_of(rows_by_queue(page)["broker-a:0"])[1])
    assert VERDICT_REASONS["not_asked"] in text_of(page)
