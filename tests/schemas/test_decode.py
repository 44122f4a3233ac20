"""The fast decoder and the walking contract are one contract."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.contract import CODES, MAX_BYTES, find_reasons
from schemas.decode import DECODERS, decode
from schemas.events import CLOCKS, EVENTS, HEARTBEATS, PULLS, ROUTES
from tests.examples import examples
from tests.schemas.messages import INGEST_TIME_MS, RAW_JSON, events_of, messages, text_of
from tests.schemas.samples import BAD, GOOD, Sample

CLOCK = b'{"cluster":"c","source":"run","brokers_asked":[],"brokers_answered":["b"],"event_time_ms":1788000000005}'


def agree(topic: str, value: bytes | None) -> bool:
    """Whether the message is good; both ways must say the same, and what is good must decode again."""
    event, reasons = decode(topic, value, INGEST_TIME_MS)
    assert reasons == find_reasons(value, EVENTS[topic], INGEST_TIME_MS)
    assert (event is None) == bool(reasons)
    assert all(reason.partition(":")[0] in CODES for reason in reasons)
    if value is not None and event is not None:
        again = DECODERS[topic].decode(value)  # the shards read the bytes again
        assert msgspec.to_builtins(again) == msgspec.to_builtins(event)
    return event is not None


@examples(400)
@given(messages())
def test_msgspec_and_the_walking_contract_accept_exactly_the_same_messages(message: tuple[str, bytes]) -> None:
    agree(*message)


@examples(100)
@given(st.data())
def test_a_message_made_by_the_contract_is_good_and_keeps_its_values(data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from(sorted(EVENTS)))
    event = data.draw(events_of(EVENTS[topic]))
    assert agree(topic, text_of(event))
    decoded, _ = decode(topic, text_of(event), INGEST_TIME_MS)
    reported = msgspec.to_builtins(decoded)
    assert {name: reported[name] for name in event if not isinstance(event[name], list)} == {
        name: value for name, value in event.items() if not isinstance(value, list)
    }


@examples(100)
@given(st.sampled_from(sorted(EVENTS)), st.binary(max_size=40))
def test_no_bytes_raise(topic: str, value: bytes) -> None:
    assert not agree(topic, value)


PLACES = ('"x":%s,"cluster"', '"x":%s,"event_time_ms":1788000000005,"cluster"', '"cluster":%s,"cluster"')


def test_odd_json_is_judged_alike_in_an_unlisted_field_and_under_a_repeated_key(subtests: pytest.Subtests) -> None:
    for number, text in enumerate(RAW_JSON):
        for place in PLACES:
            with subtests.test(place, raw_json=number):
                agree(CLOCKS, CLOCK.replace(b'"cluster"', (place % text).encode("utf-8", "surrogateescape"), 1))


@pytest.mark.parametrize("sample", [*GOOD, *BAD], ids=lambda sample: sample.name)
def test_a_sample_is_decoded_or_refused_as_its_name_says(sample: Sample) -> None:
    assert agree(sample.topic, sample.value) == (sample.reason is None)


def test_no_value_and_too_large_a_value_are_refused() -> None:
    assert not agree(CLOCKS, None)
    assert not agree(CLOCKS, CLOCK.ljust(MAX_BYTES + 1))
    assert agree(CLOCKS, CLOCK.ljust(MAX_BYTES))


def test_absent_and_null_optional_fields_are_none_and_unlisted_ones_are_kept_out() -> None:
    pull = next(json.loads(sample.value) for sample in GOOD if sample.name == "good.pulls.unlisted_fields")
    del pull["commit_offset"]
    pull["client_id"] = None
    event, reasons = decode(PULLS, json.dumps(pull).encode(), INGEST_TIME_MS)
    assert reasons == []
    assert (event.commit_offset, event.client_id) == (None, None)
    assert set(event.__struct_fields__) == set(EVENTS[PULLS].fieldNames())


def test_a_broken_clock_is_refused_though_it_decodes() -> None:
    ahead = CLOCK.replace(b"1788000000005}", b"%d}" % (INGEST_TIME_MS + 60_001))
    assert decode(CLOCKS, ahead, INGEST_TIME_MS) == (None, ["time_ahead: event_time_ms"])


def test_bounds_that_no_single_field_has_are_kept_by_the_fast_way_too() -> None:
    route = next(json.loads(sample.value) for sample in GOOD if sample.name == "good.routes")
    queues = [{"broker_name": name, "read_queue_nums": 40_000, "write_queue_nums": 8, "perm": 6} for name in "ab"]
    for event in ({**route, "queues": queues}, {**route, "queues": queues, "unlisted": 1}):
        assert not agree(ROUTES, json.dumps(event).encode())
    assert not agree(CLOCKS, CLOCK[:-1] + b',"x":[' + b",".join([b"{}"] * 60_000) + b"]}")


def test_nested_structs_are_read_by_name() -> None:
    sample = next(sample for sample in GOOD if sample.name == "good.heartbeats")
    event, _ = decode(HEARTBEATS, sample.value, INGEST_TIME_MS)
    assert event.consumers[0].subscriptions[1].topic == "orders"
    assert event.consumers[0].client_rebalance is None
