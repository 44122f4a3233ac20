"""One service with two listeners on two pods: what one frozen pod pages, for each way its clients are named."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from schemas.events import PULLS
from streaming.replay.stream import Enveloper, Stream
from tests.queries.logs import SECOND, START, alerts
from tests.queries.test_small_logs import beat, clock, route
from tests.support.rules import default_rules
from udfs.alerts.rulebook import Rulebook

pytestmark = pytest.mark.replay

GROUPS = {"bills-cg": "bills", "orders-cg": "orders"}
BROKERS = ("broker-a", "broker-b")
FROZEN, THAWED = 300, 380

Event = tuple[str, dict[str, Any]]
ClientIds = Callable[[int, str], str]


def pull(second: float, client_id: str, group: str, broker: str, queue_id: int) -> Event:
    return PULLS, {
        "cluster": "c",
        "broker_name": broker,
        "broker_id": 0,
        "topic": GROUPS[group],
        "queue_id": queue_id,
        "consumer_group": group,
        "client_addr": None,
        "client_id": client_id,
        "pull_offset": 100,
        "event_time_ms": START + round(second * SECOND),
    }


def one_frozen_pod(client_id_of: ClientIds, frozen: tuple[str, ...] = tuple(GROUPS)) -> Iterator[Event]:
    """Pod 0 has the queues of broker-a, pod 1 those of broker-b; nobody else uses the cluster."""
    for second in range(0, 900, 10):
        if second % 30 == 0:
            yield from (route(second, 4, topic, "broker-b") for topic in GROUPS.values())
        for group, topic in GROUPS.items():
            for pod, own in enumerate(BROKERS):
                if pod == 0 and group in frozen and FROZEN <= second < THAWED:
                    continue
                client_id, addr = client_id_of(pod, group), f"10.0.0.{pod}:{len(group)}"
                if second % 30 == 0:
                    _, heartbeat = beat(second, client_id, addr)
                    subscription = {**heartbeat["consumers"][0]["subscriptions"][0], "topic": topic}
                    consumer = {**heartbeat["consumers"][0], "consumer_group": group, "subscriptions": [subscription]}
                    for broker in BROKERS:
                        yield "rocketmq.heartbeats", {**heartbeat, "broker_name": broker, "consumers": [consumer]}
                for queue_id in range(4):
                    yield pull(second, client_id, group, own, queue_id)
        yield clock(second, brokers_asked=BROKERS, brokers_answered=BROKERS)


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
