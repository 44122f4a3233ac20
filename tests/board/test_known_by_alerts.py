"""Links that the board makes from alerts and brokers lead to pages, also where no queue was ever judged."""

from pathlib import Path

import pytest

from streaming.board.pages import brokers, group, groups, history
from tests.board.components import text_of
from tests.board.tables import alert, assignment, health, shown, write


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "assignments": [assignment(0, "OK")],
            "alerts": [alert("a", topic="gone"), alert("b", consumer_group="unseen", cluster="alerted")],
            "broker_health": [health(0, 0, 1, cluster="bare", broker_name="b")],
        },
    )


@pytest.mark.parametrize("cluster", ["bare", "alerted"])
def test_a_cluster_known_from_brokers_or_alerts_alone_has_its_pages(cluster: str, warehouse: Path) -> None:
    sentence = f"Cluster {cluster} has no active consumer group."
    assert sentence in text_of(shown(groups.PAGE, warehouse, cluster=cluster))
    assert "Brokers" in text_of(shown(brokers.PAGE, warehouse, cluster=cluster))


def test_topics_and_groups_that_alerts_alone_name_are_empty_pages(warehouse: Path) -> None:
    text = text_of(shown(group.PAGE, warehouse, cluster="prod", group="billing", topic="gone"))
    assert "Alerts name topic gone, but this group has no known queue of it." in text
    past = text_of(shown(history.PAGE, warehouse, cluster="prod", group="billing", topic="gone"))
    assert "No data for these queues in this period." in past
    text = text_of(shown(group.PAGE, warehouse, cluster="alerted", group="unseen", topic="orders"))
    assert "Summary of b." in text
    assert "History of unseen" in text_of(shown(history.PAGE, warehouse, group="unseen"))
