"""One service with two listeners on two pods: what one frozen pod pages, for each way its clients are named."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streaming.replay.stream import Enveloper, Stream
from tests.queries.events import BOTH, Event, asked, beat, clock, pull, route
from tests.queries.logs import SECOND, START, alerts
from tests.support.rules import default_rules
from udfs.alerts.rulebook import Rulebook

pytestmark = pytest.mark.replay

GROUPS = {"bills-cg": "bills", "orders-cg": "orders"}
FROZEN, THAWED = 300, 380

ClientIds = Callable[[int, str], str]


def one_frozen_pod(client_id_of: ClientIds, frozen: tuple[str, ...] = tuple(GROUPS)) -> Iterator[Event]:
    """Pod 0 has the queues of broker-a, pod 1 those of broker-b; nobody else uses the cluster."""
    for second in range(0, 900, 10):
        if second % 30 == 0:
            yield from (route(second, 4, topic, "broker-b") for topic in GROUPS.values())
        for group, topic in GROUPS.items():
            for pod, own in enumerate(BOTH):
                if pod == 0 and group in frozen and FROZEN <= second < THAWED:
                    continue
                client_id, addr = client_id_of(pod, group), f"10.0.0.{pod}:{len(group)}"
                if second % 30 == 0:
                    yield from (beat(second, client_id, addr, group, topic, broker_name=broker) for broker in BOTH)
                for queue_id in range(4):
                    yield pull(second, queue_id, client_id, None, group, topic=topic, broker_name=own)
        yield clock(second, **asked(*BOTH))


def rows_of(events: Iterator[Event]) -> dict[str, list[dict[str, Any]]]:
    return dict(Stream(Rulebook(default_rules())).work_through(Enveloper().messages(events)))


def pages(rows: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    firsts = {row["incident_id"]: row for row in reversed(alerts(rows)) if row["inhibited_by"] is None}
    return [row for row in firsts.values() if row["state"] == "FIRING"]


@pytest.mark.parametrize(
    "client_id_of",
    [
        lambda pod, group: f"10.0.0.{pod}@7",
        lambda pod, group: f"10.0.0.{pod}@7#{len(group)}00",
        lambda pod, group: f"172.17.0.2@7#{pod}{len(group)}",
    ],
    ids=["one ClientId", "one a group", "containers of one address"],
)
def test_a_frozen_process_of_two_groups_is_one_page_that_names_both(client_id_of: ClientIds) -> None:
    rows = rows_of(one_frozen_pod(client_id_of))
    (page,) = pages(rows)
    assert (page["kind"], page["cause"], page["consumer_group"]) == ("starved_queue", "frozen_client", "bills-cg")
    assert page["queues"] == [f"broker-a:{number}" for number in range(4)]
    assert "is frozen; affected, too: broker-a:0-3 of topic orders in group orders-cg" in page["summary"]
    assert client_id_of(0, "").partition("#")[0] in page["summary"]
    waiting = [row for row in alerts(rows, "starved_queue") if row["consumer_group"] == "orders-cg"]
    assert {row["inhibited_by"] for row in waiting} == {page["incident_id"]}
    assert {row["state"] for row in alerts(rows)} == {"FIRING", "RESOLVED"}
    assert START + 340 * SECOND <= page["changed_at"] <= START + 370 * SECOND


def test_a_frozen_client_of_one_group_names_no_other() -> None:
    rows = rows_of(one_frozen_pod(lambda pod, group: f"10.0.0.{pod}@7#{len(group)}00", ("orders-cg",)))
    (page,) = pages(rows)
    assert page["consumer_group"] == "orders-cg"
    assert "affected, too" not in page["summary"]


def test_two_processes_that_freeze_at_once_are_two_pages() -> None:
    rows = rows_of(one_frozen_pod(lambda pod, group: f"10.0.0.{pod}@{len(group)}"))
    assert sorted(row["consumer_group"] for row in pages(rows)) == ["bills-cg", "orders-cg"]
