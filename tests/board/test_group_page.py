"""The group page as a tree of components: every verdict in words and signs, twins, filters, pages, other moments."""

from pathlib import Path

import pytest

from streaming.board.pages.group import PAGE, QUEUES_A_PAGE
from streaming.board.url import AskedError
from tests.board.components import Element, by_id, cells_of, links_of, rows_of, text_of, walk
from tests.board.tables import MINUTE, NOW_MS, alert, assignment, backlog, member, shown, write
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


def test_each_verdict_is_a_word_with_its_time_and_each_cell_a_sign_with_words(warehouse: Path) -> None:
    rows = rows_by_queue(shown(PAGE, warehouse, group="billing"))
    absent, both = f"{A}: planned owner, does not consume it", "consumes it together with"
    for queue, verdict, signs, labels in (
        ("broker-a:0", "OK since", ["●"], [f"{A}: planned owner, consumes it"]),
        ("broker-a:1", "UNOWNED certain since", [], []),
        ("broker-a:2", "NOT_CONSUMED certain since", ["○"], [absent]),
        (
            "broker-a:3",
            "DOUBLE_CONSUMED certain since",
            ["●●", "◆◆"],
            [f"{A}: planned owner, {both} another client", f"{B}: {both} the planned owner"],
        ),
        (
            "broker-a:4",
            "MISPLACED certain since",
            ["○", "◆"],
            [absent, f"{B}: consumes it without being the planned owner"],
        ),
        ("broker-a:5", "UNKNOWN since", ["○"], [f"{B}: planned owner, does not consume it"]),
        ("broker-a:6", "NOT_JUDGED since", [], []),
    ):
        assert f"{verdict} 10:59:00" in text_of(cells_of(rows[queue])[1])
        assert (signs_of(rows[queue]), labels_of(rows[queue])) == (signs, labels)


def test_head_legend_links_commands_and_members(warehouse: Path) -> None:
    """Causes come before their effects; twins are marked as a word in the matrix and among the members."""
    page = shown(PAGE, warehouse, group="billing")
    terms = {text_of(term) for term in walk(page) if term.name == "dt"}
    assert set(signs_of(page)) <= terms
    assert {row["verdict"] for row in EVERY_VERDICT} <= terms
    said = text_of(shown(PAGE, warehouse, group="billing"))
    assert "✖ 1 UNOWNED ○ 1 NOT_CONSUMED ●● 1 DOUBLE_CONSUMED ◆ 1 MISPLACED ? 1 UNKNOWN" in said
    assert "of 7 queues; 2 ClientIds on 2 broker connections." in said
    assert said.index("duplicate_client_id") < said.index("starved_queue")
    assert "Fix: Advice of cause." in said
    assert "Advice of s." not in said
    links = links_of(rows_by_queue(page)["broker-a:1"])
    assert "/incident?id=cause" in links
    assert "/history?cluster=prod&group=billing&topic=orders&queue=broker-a%3A1" in links
    assert "balancewatch owner orders broker-a:1 --group billing --cluster prod" in text_of(page)
    assert "TWIN" in text_of(next(element for element in walk(by_id(page, "queues")) if element.name == "thead"))
    assert "TWIN" in text_of(by_id(page, "members"))
    said = text_of(by_id(shown(PAGE, warehouse, group="billing"), "members"))
    assert f"{B} 10.0.0.2:50 Java 4.9.8 AVG orders broker-a" in said
    assert list(rows_by_queue(shown(PAGE, warehouse, group="billing", verdict="NOT_CONSUMED"))) == ["broker-a:2"]


def test_a_past_time_shows_the_state_at_that_time(tmp_path: Path) -> None:
    before = [assignment(0, "OK", planned_owner=A, observed_owners=[A], changed_at=NOW_MS - 8 * MINUTE)]
    write(tmp_path, {"assignments": before, "memberships": MEMBERS[:1]})
    write(tmp_path, {"assignments": EVERY_VERDICT, "memberships": MEMBERS[1:]}, 1)
    page = shown(PAGE, tmp_path, group="billing", at="5m")
    assert list(rows_by_queue(page)) == ["broker-a:0"]
    assert "State at 2026-11-21T10:55:00.000Z, 5 min ago." in text_of(page)
    assert "--at 2026-11-21T10:55:00.000Z" in text_of(page)


def test_backlogs_of_queues_now_and_at_a_past_time(tmp_path: Path) -> None:
    write(tmp_path, {"assignments": [assignment(number, "OK", changed_at=NOW_MS - 9 * MINUTE) for number in range(3)]})
    assert "Backlog" not in text_of(shown(PAGE, tmp_path, group="billing"))
    write(tmp_path, {"backlogs": [backlog(0, 4_000, 8 * MINUTE), backlog(1, 7_000, 8 * MINUTE)]}, 1)
    write(tmp_path, {"backlogs": [backlog(0, None), backlog(1, 15_000), backlog(2, 300)]}, 2)

    def backlogs(**asked: str) -> list[str]:
        rows = rows_by_queue(shown(PAGE, tmp_path, group="billing", **asked))
        return [text_of(cells_of(row)[2]) for row in rows.values()]

    assert backlogs() == ["unknown 2 min ago", "15,000 2 min ago", ""]
    assert backlogs(at="5m") == ["4,000 8 min ago", "7,000 8 min ago", ""]
    assert "blank: below 1,000 or never reported" in text_of(shown(PAGE, tmp_path, group="billing"))


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


def test_groups_without_queues_of_two_clusters_of_many_members_and_with_reasons(tmp_path: Path) -> None:
    write(tmp_path, {"memberships": MEMBERS})
    page = shown(PAGE, tmp_path, group="billing")
    assert "the group subscribes to no topic" in text_of(page)
    assert A in text_of(by_id(page, "members"))
    write(tmp_path / "1", {"assignments": [assignment(0, "OK"), assignment(0, "OK", cluster="test")]})
    with pytest.raises(AskedError, match="in clusters prod, test; add cluster="):
        shown(PAGE, tmp_path / "1", group="billing")
    assert "group in cluster test" in text_of(shown(PAGE, tmp_path / "1", group="billing", cluster="test"))
    many = [member(f"10.0.1.{number}@7", f"10.0.1.{number}:5") for number in range(40)]
    page = shown(PAGE, write(tmp_path / "2", {"memberships": many}), group="billing")
    assert "30 of 40 clients" in text_of(by_id(page, "members-panel"))
    assert "10 more: balancewatch members --current --group billing --cluster prod" in text_of(page)
    rows = [
        assignment(0, "OK", planned_owner=A, observed_owners=[A]),
        assignment(1, "UNKNOWN", planned_owner=B, observed_owners=[], verdict_reason="not_asked"),
    ]
    page = shown(
        PAGE, write(tmp_path / "3", {"assignments": rows, "memberships": MEMBERS}), cluster="prod", group="billing"
    )
    assert "(not_asked)" in text_of(rows_by_queue(page)["broker-a:1"])
    assert "(" not in text_of(cells_of(rows_by_queue(page)["broker-a:0"])[1])
    assert str(VERDICT_REASONS["not_asked"]) in text_of(page)
