"""Events that keep to the contract and mean no good: none raises on the way from Kafka to the tables' columns."""

from random import Random
from typing import Any

import pytest

from schemas.events import CLOCKS, FIRST_MS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from schemas.tables import TABLES
from streaming.warehouse.rows import LAST_MS, arrow_table
from tests.queries.events import beat, clock, pull, send
from tests.queries.logs import SECOND, START
from tests.support.engine import Stream
from tests.support.tiers import in_proof

pytestmark = pytest.mark.replay

NAMES = (
    "g",
    "a|b",
    " ",
    "|",
    "2:a|",
    "订单",
    "\U0001f600",
    "\u202e",
    "\u0000",
    "b:1",
    "a,b",
    "%RETRY%g",
    "x" * 255,
    "a\nb",
)
MOST = 2**63 - 1
NUMBERS = (0, 1, 5, 100, MOST - 1, MOST)


def event_of(random: Random, now_ms: int) -> tuple[str, dict[str, Any]]:
    """Any event at any time that the contract takes, near one another often enough to meet."""
    pick = random.choice
    times = (now_ms,) * 6 + (now_ms - 100 * SECOND, FIRST_MS, now_ms + 23 * 3_600 * SECOND)
    place = {"cluster": pick(("c", "c", "a|b")), "broker_name": pick(("b0", "b1", *NAMES[1:4]))}
    at = {**place, "event_time_ms": pick(times)}
    match random.randrange(5):
        case 0:
            (one,) = beat(0, "A", "h:1")[1]["consumers"]
            named = [{**one, "consumer_group": pick(NAMES)} for _ in range(pick((0, 1, 2, 2)))]
            reported: dict[str, Any] = {"consumers": named, "client_version": pick(("5.3.3", "²", "9.9", ""))}
            return HEARTBEATS, beat(0, pick(NAMES), pick(("h:1", "", "[::1]:80", *NAMES)))[1] | reported | at
        case 1:
            offsets: dict[str, Any] = {name: pick(NUMBERS) for name in ("pull_offset", "commit_offset", "max_offset")}
            offsets |= {"client_id": pick((None, *NAMES)), "offsets_only": pick((None, True))}
            return PULLS, pull(0, pick((0, 1, 16_383)), group=pick(NAMES))[1] | offsets | at
        case 2:
            each = {
                "read_queue_nums": pick((0, 1, 300)),
                "write_queue_nums": pick((0, 4)),
                "perm": random.randrange(16),
            }
            queues = [{"broker_name": pick(("b0", "b1", "b1")), **each} for _ in range(pick((0, 1, 3)))]
            brokers = [{"broker_name": pick(("b0", "b0", "b9")), "broker_ids": [MOST]} for _ in range(pick((0, 1, 2)))]
            topic = pick(("orders", *NAMES))
            event = {"cluster": place["cluster"], "topic": topic, "queues": queues, "brokers": brokers}
            return ROUTES, {**event, "event_time_ms": at["event_time_ms"]}
        case 3:
            reported = {"client_version": pick(("4.8.0", "5.1.4", "²", "")), "isolation": pick((True, False))}
            sent = {"topic": pick(NAMES), "latency_ms": pick(NUMBERS), "reachable": pick((None, True, False))}
            return SEND_LATENCIES, send(0, pick(NAMES))[1] | reported | sent | at
        case _:
            unheard = {"broker_name": pick((None, "b0")), "consumer_group": None, "client_id": None}
            reported = {
                "interval_ms": pick((None, 0, 5_000, 2**31 - 1)),
                "groups": pick((None, [], [pick(NAMES)])),
                "unheard": [{**unheard, "reason": "r", "since_ms": pick((0, MOST))}],
                "brokers_asked": [place["broker_name"], "b0", "b0"],
                "brokers_answered": pick(([], ["b0"], ["b7"])),
                "skews": [{"machine": pick(NAMES), "role": "broker", "ahead_ms": pick((-MOST, MOST))}],
            }
            return CLOCKS, {
                **clock(0, pick(("collector", "run", "two")))[1],
                **reported,
                "cluster": place["cluster"],
                "event_time_ms": now_ms,
            }


@pytest.mark.parametrize("seed", [0, *in_proof([1, 2, 3])])
def test_whatever_keeps_to_the_contract_becomes_rows_and_raises_nothing(seed: int) -> None:
    random, stream = Random(seed), Stream()
    kinds, reasons = set(), set()
    for now_ms in range(START, START + 200 * SECOND, 5 * SECOND):
        batch = [event_of(random, now_ms) for _ in range(12)]
        rows = stream.feed(batch, lambda _, now_ms=now_ms: now_ms)
        for name in rows.keys() & TABLES.keys():
            arrow_table(rows[name], TABLES[name], 1)
        kinds |= {row["kind"] for row in rows.get("alerts", ())}
        reasons |= {reason for row in rows.get("quarantine", ()) for reason in row["reasons"]}
    assert kinds
    assert "rule_failed" not in kinds
    assert {reason.partition(":")[0] for reason in reasons} <= {
        "unknown_queue",
        "negative_value",
        "time_ahead",
        "over_maximum",
    }


def test_a_time_that_no_reader_takes_as_one_is_reported_as_the_nearest() -> None:
    row = {"cluster": "c", "changed_at": 2**63, "started_at": -(2**63)}
    reported = arrow_table([row], TABLES["alerts"], 1)
    assert reported["changed_at"].cast("int64").to_pylist() == [LAST_MS * 1000]
    assert reported["started_at"].cast("int64").to_pylist() == [0]


def test_rounds_that_are_meant_to_be_an_age_apart_do_not_hide_that_they_stop() -> None:
    stream = Stream()
    both = {"brokers_asked": ["broker-a", "broker-b"], "brokers_answered": ["broker-a", "broker-b"]}
    for second in range(0, 30, 5):
        stream.feed([beat(second, "A", "h1:1"), clock(second, interval_ms=2**63 - 1, **both)])
    rows = stream.feed([clock(second, source="two") for second in range(30, 12_000, 60)])
    assert ("cluster_no_data", "collector_silent") in {(row["kind"], row["cause"]) for row in rows["alerts"]}
