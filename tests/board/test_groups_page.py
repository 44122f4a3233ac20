"""The list of groups: worst first, searched and paged; the canary's hidden."""

from pathlib import Path

import pytest

from streaming.board.pages.groups import GROUPS_A_PAGE, PAGE
from tests.board.components import Element, by_id, cells_of, links_of, rows_of, text_of
from tests.board.tables import alert, assignment, backlog, member, shown, write
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


def test_order_rows_search_and_clusters(warehouse: Path) -> None:
    """Firing groups come first, then the worst; the canary's only where its cluster is named."""
    page = shown(PAGE, warehouse)
    assert names(page) == ["firing", "starved", "silent", "unseen", "calm"]
    assert "5 groups; 2 with 2 queues unowned, not consumed, double-consumed or misplaced" in text_of(page)
    assert "1 with unknown queues; 1 with firing alerts." in text_of(page)
    assert "/group?cluster=prod&group=starved" in links_of(page)
    assert "/incident?id=f" in links_of(page)
    assert "/incident?id=e" not in links_of(page)
    row = by_id(page, "groups-prod/starved")
    assert text_of(row) == "starved prod ✖ UNOWNED 1 1 min ago 2 0"
    assert "canary" not in names(shown(PAGE, warehouse))
    assert names(shown(PAGE, warehouse, cluster=CANARY_CLUSTER)) == ["canary"]
    assert names(shown(PAGE, warehouse, q="AR")) == ["starved"]
    assert "No group name contains 'zzz'." in text_of(shown(PAGE, warehouse, q="zzz"))


def test_the_backlog_of_a_group_with_its_time_and_what_a_blank_means(tmp_path: Path) -> None:
    queues = [assignment(0, "OK", consumer_group=name) for name in ("billing", "calm")]
    write(tmp_path, {"assignments": queues})
    assert "Blank" not in text_of(shown(PAGE, tmp_path))
    write(tmp_path, {"backlogs": [backlog(0, 12_000), backlog(1, 400)]}, 1)
    page = shown(PAGE, tmp_path)
    assert text_of(by_id(page, "groups-prod/billing")) == "billing prod ● OK 1 12,000 2 min ago 0"
    assert text_of(by_id(page, "groups-prod/calm")) == "calm prod ● OK 1 0"
    assert "Blank: below 1,000 in each queue." in text_of(page)


def test_which_groups_are_listed_and_how_they_are_named(tmp_path: Path) -> None:
    """One OK queue makes a group OK; members or a firing alert keep a group without owners."""
    assert "No consumer group is known yet" in text_of(shown(PAGE, write(tmp_path, {"alerts": [alert("a")]})))
    queues = [
        assignment(0, "NOT_JUDGED", consumer_group="pop"),
        assignment(0, "NOT_JUDGED", consumer_group="partly"),
        assignment(1, "OK", consumer_group="partly"),
    ]
    page = shown(PAGE, write(tmp_path / "1", {"assignments": queues}))
    assert text_of(by_id(page, "groups-prod/pop")).startswith("pop prod ∅ NOT_JUDGED")
    assert text_of(by_id(page, "groups-prod/partly")).startswith("partly prod ● OK")
    unowned = {"planned_owner": None, "observed_owners": []}
    queues = [
        assignment(0, "NOT_JUDGED", consumer_group=name, **unowned) for name in ("forgotten", "broadcast", "fires")
    ]
    page = shown(
        PAGE,
        write(
            tmp_path / "2",
            {
                "assignments": queues,
                "memberships": [member("c@1", "10.0.0.1:5", consumer_group="broadcast")],
                "alerts": [alert("f", consumer_group="fires")],
            },
        ),
    )
    assert names(page) == ["fires", "broadcast"]
    queues = [
        assignment(0, "OK", cluster="a", consumer_group="b-c"),
        assignment(0, "OK", cluster="a-b", consumer_group="c"),
    ]
    page = shown(PAGE, write(tmp_path / "3", {"assignments": queues}))
    assert [row["id"] for row in rows_of(page, "groups")] == ["groups-a/b-c", "groups-a-b/c"]
    queues = [assignment(0, "OK", consumer_group=f"g{number:03}") for number in range(GROUPS_A_PAGE + 3)]
    write(tmp_path / "4", {"assignments": queues})
    assert len(names(shown(PAGE, tmp_path / "4"))) == GROUPS_A_PAGE
    assert names(shown(PAGE, tmp_path / "4", page="2", q="g")) == ["g050", "g051", "g052"]
    assert "/groups?q=g" in links_of(shown(PAGE, tmp_path / "4", page="2", q="g"))
