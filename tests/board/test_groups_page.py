"""The list of groups: worst first, searched and paged; the canary's hidden."""

from pathlib import Path

import pytest

from streaming.board.pages.groups import GROUPS_A_PAGE, PAGE
from streaming.board.url import AskedError
from tests.board.components import Element, by_id, cells_of, links_of, rows_of, text_of
from tests.board.tables import alert, assignment, member, shown, write
from udfs.alerts.rulebook import CANARY_CLUSTER


def names(page: Element) -> list[str]:
    return [text_of(cells_of(row)[0]).split()[0] for row in rows_of(page, "groups")]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    queues = [
        assignment(0, "OK", consumer_group="calm"),
        assignment(0, "NOT_CONSUMED", consumer_group="silent", planned_owner=None),
        assignment(0, "UNOWNED", consumer_group="starved"),
        assignment(1, "OK", consumer_group="starved"),
        assignment(0, "UNKNOWN", consumer_group="unseen"),
        assignment(0, "OK", consumer_group="firing"),
        assignment(0, "UNOWNED", consumer_group="canary", cluster=CANARY_CLUSTER),
    ]
    fires = alert("f", consumer_group="firing", kind="split_view")
    effect = alert("e", consumer_group="calm", inhibited_by="f")
    return write(tmp_path_factory.mktemp("warehouse"), {"assignments": queues, "alerts": [fires, effect]})


def test_groups_that_page_come_first_then_the_worst(warehouse: Path) -> None:
    page = shown(PAGE, warehouse)
    assert names(page) == ["firing", "starved", "silent", "unseen", "calm"]
    assert "5 groups; 2 with 2 queues unowned, not consumed, double-consumed or misplaced" in text_of(page)
    assert "1 with unknown queues; 1 with firing alerts." in text_of(page)


def test_a_row_says_its_counts_and_leads_to_the_group_and_to_what_fires(warehouse: Path) -> None:
    page = shown(PAGE, warehouse)
    assert "/group?cluster=prod&group=starved" in links_of(page)
    assert "/incident?id=f" in links_of(page)
    assert "/incident?id=e" not in links_of(page)
    row = by_id(page, "groups-prod/starved")
    assert text_of(row) == "starved prod ✖ UNOWNED 1 1 min ago 2 0"


def test_the_canary_is_shown_only_where_its_cluster_is_named(warehouse: Path) -> None:
    assert "canary" not in names(shown(PAGE, warehouse))
    assert names(shown(PAGE, warehouse, cluster=CANARY_CLUSTER)) == ["canary"]


def test_a_search_takes_parts_of_names_in_any_case(warehouse: Path) -> None:
    assert names(shown(PAGE, warehouse, q="AR")) == ["starved"]
    assert "No group name contains 'zzz'." in text_of(shown(PAGE, warehouse, q="zzz"))


def test_a_cluster_that_is_not_there_is_refused_with_those_that_are(warehouse: Path) -> None:
    with pytest.raises(AskedError, match="cluster = 'x': choose one of prod"):
        shown(PAGE, warehouse, cluster="x")


def test_more_groups_than_a_page_holds_are_paged(tmp_path: Path) -> None:
    queues = [assignment(0, "OK", consumer_group=f"g{number:03}") for number in range(GROUPS_A_PAGE + 3)]
    write(tmp_path, {"assignments": queues})
    assert len(names(shown(PAGE, tmp_path))) == GROUPS_A_PAGE
    assert names(shown(PAGE, tmp_path, page="2", q="g")) == ["g050", "g051", "g052"]
    assert "/groups?q=g" in links_of(shown(PAGE, tmp_path, page="2", q="g"))


def test_tables_without_groups_say_what_has_not_come(tmp_path: Path) -> None:
    assert "No consumer group is known yet" in text_of(shown(PAGE, write(tmp_path, {"alerts": [alert("a")]})))


def test_a_group_without_judged_queues_is_not_called_ok(tmp_path: Path) -> None:
    """One queue that is OK makes a group OK; without one it is NOT_JUDGED."""
    queues = [
        assignment(0, "NOT_JUDGED", consumer_group="pop"),
        assignment(0, "NOT_JUDGED", consumer_group="partly"),
        assignment(1, "OK", consumer_group="partly"),
    ]
    page = shown(PAGE, write(tmp_path, {"assignments": queues}))
    assert text_of(by_id(page, "groups-prod/pop")).startswith("pop prod ∅ NOT_JUDGED")
    assert text_of(by_id(page, "groups-prod/partly")).startswith("partly prod ● OK")


def test_a_group_without_owners_and_members_is_not_listed(tmp_path: Path) -> None:
    """A broadcasting group looks the same but for its members; what fires about a group keeps it, too."""
    unowned = {"planned_owner": None, "observed_owners": []}
    queues = [
        assignment(0, "NOT_JUDGED", consumer_group=name, **unowned) for name in ("forgotten", "broadcast", "fires")
    ]
    page = shown(
        PAGE,
        write(
            tmp_path,
            {
                "assignments": queues,
                "memberships": [member("c@1", "10.0.0.1:5", consumer_group="broadcast")],
                "alerts": [alert("f", consumer_group="fires")],
            },
        ),
    )
    assert names(page) == ["fires", "broadcast"]


def test_rows_whose_names_run_together_have_ids_of_their_own(tmp_path: Path) -> None:
    queues = [
        assignment(0, "OK", cluster="a", consumer_group="b-c"),
        assignment(0, "OK", cluster="a-b", consumer_group="c"),
    ]
    page = shown(PAGE, write(tmp_path, {"assignments": queues}))
    assert [row["id"] for row in rows_of(page, "groups")] == ["groups-a/b-c", "groups-a-b/c"]
