"""The contract of messages: every reason by its code and its field, alike in the decoder and the walking contract."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.contract import CODES, MAX_BYTES, MAX_DEPTH, MAX_NODES, MAX_REASONS, find_reasons, max_ahead_ms
from schemas.decode import DECODERS, decode
from schemas.events import CLOCKS, EVENTS, FIRST_MS, HEARTBEATS, MOST_QUEUES, PULLS, ROUTES, SEND_LATENCIES
from tests.schemas.messages import RAW_JSON, events_of, messages, text_of
from tests.schemas.samples import BAD, GOOD, INGEST_TIME_MS, Sample
from tests.support.examples import examples

NOW_MS = 1_788_999_999_999
CLOCK = {"cluster": "c", "source": "run", "brokers_asked": [], "brokers_answered": [], "event_time_ms": NOW_MS}
STORED = set(CODES) - {"too_large", "too_many", "more_reasons"}  # long ones would teach nobody: made below
DAY_MS = 86_400_000


def named(samples: list[Sample]) -> Any:
    return pytest.mark.parametrize("sample", samples, ids=[sample.name for sample in samples])


def reasons_of(topic: str, event: Any) -> list[str]:
    """Return the reasons against a message. Both contracts must agree, and a good message must decode again."""
    value = event if isinstance(event, bytes | None) else json.dumps(event).encode()
    decoded, reasons = decode(topic, value, INGEST_TIME_MS)
    assert reasons == find_reasons(value, EVENTS[topic], INGEST_TIME_MS)
    assert (decoded is None) == bool(reasons)
    assert all(reason.partition(":")[0] in CODES for reason in reasons)
    if value is not None and decoded is not None:
        again = DECODERS[topic].decode(value)  # the shards read the bytes again
        assert msgspec.to_builtins(again) == msgspec.to_builtins(decoded)
    return reasons


def good(name: str) -> Any:
    return json.loads(next(sample.value for sample in GOOD if sample.name == f"good.{name}"))


@named(GOOD)
def test_a_good_sample_has_no_reason(sample: Sample) -> None:
    assert reasons_of(sample.topic, sample.value) == []


@named(BAD)
def test_a_bad_sample_has_exactly_the_reason_in_its_name(sample: Sample) -> None:
    assert [reason.partition(":")[0] for reason in reasons_of(sample.topic, sample.value)] == [sample.reason]


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


def test_every_reason_is_reported_with_its_dotted_field() -> None:
    beat = good("heartbeats")
    del beat["client_addr"]
    beat["language"] = 7
    beat["consumers"][0]["subscriptions"][1]["sub_version"] = None
    beat["consumers"].append({"consumer_group": "audit", "client_rebalance": "no"})
    beat["event_time_ms"] = INGEST_TIME_MS + DAY_MS + 1
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
        (16_383, []),
        (16_384, ["unknown_queue: queue_id"]),
        (2**31, ["wrong_type: queue_id", "unknown_queue: queue_id"]),
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
    value = json.dumps(CLOCK).encode().replace(str(NOW_MS).encode(), b"5" * 5000)
    assert reasons_of(CLOCKS, value) == ["wrong_type: event_time_ms"]


@pytest.mark.parametrize(
    ("topic", "ahead_ms"), [(HEARTBEATS, DAY_MS), (PULLS, DAY_MS), (ROUTES, DAY_MS), (CLOCKS, 60_000)]
)
def test_an_event_may_be_a_day_ahead_of_kafka_and_the_clock_a_minute(topic: str, ahead_ms: int) -> None:
    assert max_ahead_ms(EVENTS[topic]) == ahead_ms
    event = good(topic.removeprefix("rocketmq."))
    assert reasons_of(topic, {**event, "event_time_ms": INGEST_TIME_MS + ahead_ms}) == []
    assert reasons_of(topic, {**event, "event_time_ms": INGEST_TIME_MS + ahead_ms + 1}) == ["time_ahead: event_time_ms"]


def test_a_clock_that_was_never_set_is_refused() -> None:
    assert reasons_of(CLOCKS, {**CLOCK, "event_time_ms": FIRST_MS}) == []
    assert reasons_of(CLOCKS, {**CLOCK, "event_time_ms": FIRST_MS - 1}) == ["time_before: event_time_ms"]
    assert reasons_of(CLOCKS, {**CLOCK, "event_time_ms": -1}) == ["time_before: event_time_ms"]


def test_names_have_a_length() -> None:
    pull = good("pulls")
    assert reasons_of(PULLS, {**pull, "consumer_group": "订" * 255, "client_id": ""}) == []
    assert reasons_of(PULLS, {**pull, "consumer_group": "订" * 256, "topic": ""}) == [
        "empty_name: topic",
        "too_long: consumer_group",
    ]
    assert reasons_of(HEARTBEATS, {**good("heartbeats"), "client_id": ""}) == ["empty_name: client_id"]
    assert reasons_of(CLOCKS, {**CLOCK, "brokers_asked": ["b" * 256]}) == ["too_long: brokers_asked[0]"]


def test_a_route_has_no_more_queues_than_can_be_judged_on_one_broker_or_on_all() -> None:
    route = good("routes")
    most = {"broker_name": "b", "read_queue_nums": MOST_QUEUES, "write_queue_nums": 8, "perm": 6}
    assert reasons_of(ROUTES, {**route, "queues": [most]}) == []
    assert reasons_of(ROUTES, {**route, "queues": [{**most, "read_queue_nums": 2**31 - 1}]}) == [
        "over_maximum: queues[0].read_queue_nums",
        "over_maximum: queues[].read_queue_nums",
    ]
    halves = [{**most, "broker_name": name, "read_queue_nums": MOST_QUEUES // 2 + 1} for name in "ab"]
    for unlisted in ({}, {"unlisted": 1}):
        reasons = reasons_of(ROUTES, {**route, "queues": halves, **unlisted})
        assert reasons == ["over_maximum: queues[].read_queue_nums"]


def test_a_list_has_a_length_and_is_not_looked_into_beyond_it() -> None:
    beat = good("heartbeats")
    assert reasons_of(HEARTBEATS, {**beat, "consumers": [{}] * 1_001}) == ["too_many: consumers"]
    assert reasons_of(CLOCKS, {**CLOCK, "brokers_asked": ["b"] * 1_025}) == ["too_many: brokers_asked"]


def test_the_first_reasons_are_reported_and_how_many_more_there_are() -> None:
    reasons = reasons_of(HEARTBEATS, {**good("heartbeats"), "consumers": [{}] * 1_000})
    assert len(reasons) == MAX_REASONS + 1
    assert reasons[0] == "missing_field: consumers[0].consumer_group"
    assert reasons[-1] == f"more_reasons: {1_000 * 5 - MAX_REASONS}"


def test_a_message_of_nothing_but_braces_is_refused_without_being_walked() -> None:
    def stuffed(count: int) -> bytes:
        return json.dumps(CLOCK).encode()[:-1] + b', "x": [' + b",".join([b"{}"] * count) + b"]}"

    around = 4  # the event, its two lists, and the one around the braces
    assert reasons_of(CLOCKS, stuffed(MAX_NODES - around)) == []
    assert reasons_of(CLOCKS, stuffed(MAX_NODES - around + 1)) == ["too_many: braces and brackets"]


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
    assert reasons_of(CLOCKS, nested(10_000)) == ["not_json"]


@examples(400)
@given(messages())
def test_msgspec_and_the_walking_contract_accept_exactly_the_same_messages(message: tuple[str, bytes]) -> None:
    reasons_of(*message)


@examples(100)
@given(st.data())
def test_a_message_made_by_the_contract_is_good_and_keeps_its_values(data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from(sorted(EVENTS)))
    event = data.draw(events_of(EVENTS[topic]))
    assert reasons_of(topic, text_of(event)) == []
    decoded = msgspec.to_builtins(decode(topic, text_of(event), INGEST_TIME_MS)[0])
    assert {name: decoded[name] for name in event if not isinstance(event[name], list)} == {
        name: value for name, value in event.items() if not isinstance(value, list)
    }


@examples(100)
@given(st.sampled_from(sorted(EVENTS)), st.binary(max_size=40))
def test_no_bytes_raise(topic: str, value: bytes) -> None:
    assert reasons_of(topic, value)


PLACES = ('"x":%s,"cluster"', f'"x":%s,"event_time_ms":{NOW_MS},"cluster"', '"cluster":%s,"cluster"')


def test_odd_json_is_judged_alike_in_an_unlisted_field_and_under_a_repeated_key(subtests: pytest.Subtests) -> None:
    for number, text in enumerate(RAW_JSON):
        for place in PLACES:
            with subtests.test(place, raw_json=number):
                odd = (place % text).encode("utf-8", "surrogateescape")
                reasons_of(CLOCKS, json.dumps(CLOCK).encode().replace(b'"cluster"', odd, 1))


def test_absent_and_null_optional_fields_are_none_and_unlisted_ones_are_kept_out() -> None:
    pull = good("pulls.unlisted_fields")
    del pull["commit_offset"]
    pull["client_id"] = None
    event, reasons = decode(PULLS, json.dumps(pull).encode(), INGEST_TIME_MS)
    assert reasons == []
    assert (event.commit_offset, event.client_id) == (None, None)
    assert set(event.__struct_fields__) == set(EVENTS[PULLS].by_name)


def test_nested_structs_are_read_by_name() -> None:
    event, _ = decode(HEARTBEATS, json.dumps(good("heartbeats")).encode(), INGEST_TIME_MS)
    assert event.consumers[0].subscriptions[1].topic == "orders"
    assert event.consumers[0].client_rebalance is None
