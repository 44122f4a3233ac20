"""What makes a message bad: every reason, by its code and its field."""

import json
from typing import Any

import pytest

from schemas.contract import CODES, MAX_AHEAD_MS, MAX_BYTES, MAX_DEPTH, find_reasons
from schemas.events import CLOCKS, EVENTS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from tests.schemas.samples import BAD, GOOD, INGEST_TIME_MS, Sample

CLOCK = {"cluster": "c", "source": "run", "brokers_asked": [], "brokers_answered": [], "event_time_ms": 5}
STORED = set(CODES) - {"too_large"}  # a stored mebibyte would teach nobody anything: made below


def named(samples: list[Sample]) -> Any:
    return pytest.mark.parametrize("sample", samples, ids=[sample.name for sample in samples])


def reasons_of(topic: str, event: Any) -> list[str]:
    value = event if isinstance(event, bytes | None) else json.dumps(event).encode()
    return find_reasons(value, EVENTS[topic], INGEST_TIME_MS)


def good(name: str) -> Any:
    """The event of a good sample, to be spoilt."""
    return json.loads(next(sample.value for sample in GOOD if sample.name == f"good.{name}"))


@named(GOOD)
def test_a_good_sample_has_no_reason(sample: Sample) -> None:
    assert find_reasons(sample.value, EVENTS[sample.topic], INGEST_TIME_MS) == []


@named(BAD)
def test_a_bad_sample_has_exactly_the_reason_in_its_name(sample: Sample) -> None:
    codes = [reason.partition(":")[0] for reason in find_reasons(sample.value, EVENTS[sample.topic], INGEST_TIME_MS)]
    assert codes == [sample.reason]


def test_every_event_has_a_good_sample_and_every_stored_reason_a_bad_one() -> None:
    assert {sample.topic for sample in GOOD} == set(EVENTS)
    assert {sample.reason for sample in BAD} == STORED


def test_a_message_over_one_mebibyte_is_too_large_whatever_it_says() -> None:
    padded = json.dumps(CLOCK).encode().ljust(MAX_BYTES)
    assert reasons_of(CLOCKS, padded) == []
    assert reasons_of(CLOCKS, padded + b" ") == ["too_large"]
    assert reasons_of(CLOCKS, b"x" * (MAX_BYTES + 1)) == ["too_large"]


def test_a_message_without_a_value_is_not_json() -> None:
    assert reasons_of(CLOCKS, None) == ["not_json"]


def test_every_reason_is_told_with_its_dotted_field() -> None:
    beat = good("heartbeats")
    del beat["client_addr"]
    beat["language"] = 7
    beat["consumers"][0]["subscriptions"][1]["sub_version"] = None
    beat["consumers"].append({"consumer_group": "audit", "client_rebalance": "no"})
    beat["event_time_ms"] = INGEST_TIME_MS + MAX_AHEAD_MS + 1
    assert reasons_of(HEARTBEATS, beat) == [
        "missing_field: client_addr",
        "wrong_type: language",
        "missing_field: consumers[0].subscriptions[1].sub_version",
        "missing_field: consumers[1].consume_type",
        "missing_field: consumers[1].message_model",
        "missing_field: consumers[1].consume_from_where",
        "wrong_type: consumers[1].client_rebalance",
        "missing_field: consumers[1].subscriptions",
        "time_ahead: event_time_ms",
    ]


def test_a_queue_below_zero_is_an_unknown_queue_and_any_other_number_below_its_minimum_is_negative() -> None:
    assert reasons_of(SEND_LATENCIES, {**good("send_latencies"), "queue_id": -1, "latency_ms": -1}) == [
        "unknown_queue: queue_id",
        "negative_value: latency_ms",
    ]
    route = good("routes")
    route["queues"][1]["write_queue_nums"] = -1
    assert reasons_of(ROUTES, route) == ["negative_value: queues[1].write_queue_nums"]


@pytest.mark.parametrize(
    ("queue_id", "reasons"),
    [
        (2**31 - 1, []),
        (2**31, ["wrong_type: queue_id"]),
        (3.0, ["wrong_type: queue_id"]),
        (True, ["wrong_type: queue_id"]),
        ("3", ["wrong_type: queue_id"]),
        ([3], ["wrong_type: queue_id"]),
        (None, ["missing_field: queue_id"]),
    ],
)
def test_a_number_is_a_whole_number_within_its_type(queue_id: Any, reasons: list[str]) -> None:
    assert reasons_of(PULLS, {**good("pulls"), "queue_id": queue_id}) == reasons


def test_a_number_too_long_for_python_is_of_a_wrong_type_and_not_a_crash() -> None:
    value = json.dumps(CLOCK).encode().replace(b"5", b"5" * 5000)
    assert reasons_of(CLOCKS, value) == ["wrong_type: event_time_ms"]


def test_a_day_ahead_of_kafka_is_still_an_early_event() -> None:
    assert reasons_of(CLOCKS, {**CLOCK, "event_time_ms": INGEST_TIME_MS + MAX_AHEAD_MS}) == []
    assert reasons_of(CLOCKS, {**CLOCK, "event_time_ms": INGEST_TIME_MS + MAX_AHEAD_MS + 1}) == [
        "time_ahead: event_time_ms"
    ]


def test_of_equal_keys_each_must_be_good() -> None:
    value = json.dumps(CLOCK).encode()
    assert reasons_of(CLOCKS, value.replace(b"{", b'{"cluster": 1, ', 1)) == ["wrong_type: cluster"]
    assert reasons_of(CLOCKS, value.replace(b"{", b'{"cluster": null, ', 1)) == ["missing_field: cluster"]
    assert reasons_of(CLOCKS, value.replace(b"{", b'{"cluster": "b", ', 1)) == []


def test_nesting_counts_from_the_event_itself() -> None:
    def nested(levels: int) -> bytes:
        return json.dumps(CLOCK).encode()[:-1] + b', "x": ' + b"[" * levels + b"]" * levels + b"}"

    assert reasons_of(CLOCKS, nested(MAX_DEPTH - 1)) == []
    assert reasons_of(CLOCKS, nested(MAX_DEPTH)) == ["not_json"]
    assert reasons_of(CLOCKS, nested(100_000)) == ["not_json"]
