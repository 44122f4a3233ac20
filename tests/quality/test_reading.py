"""A reading's rows: what the contract refuses is found by its expectations, and what the rules' columns say."""

import json
from typing import Any

import pytest
from hypothesis import given

from schemas.contract import find_reasons
from schemas.events import EVENTS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from schemas.expectations import Severity
from schemas.suites import ENUMERATIONS, RULES, SUITES, suites_of
from streaming.quality.inspection import ENOUGH_LOOKS, Message, Routes, UsualRates, read
from tests.quality.sampled import START_MS, by_python, log_of, message, reading_of
from tests.queries import events
from tests.queries.logs import START
from tests.schemas.messages import messages
from tests.schemas.samples import BAD, GOOD, INGEST_TIME_MS
from tests.support.tiers import in_proof

RULE_COLUMNS = {one.column for of_topic in RULES.values() for one in of_topic} | {"contract", "ahead_ms", "behind_ms"}


def faults(one: Message) -> set[str]:
    """Columns of the contract's own expectations that do not hold for a message."""
    found = set()
    readings = reading_of(one.topic, [one])
    for suite in suites_of(one.topic):
        for expectation in suite.expectations:
            if expectation.column in RULE_COLUMNS or expectation.severity is not Severity.CRITICAL:
                continue
            for row in readings[suite.name]:
                value = row.get(expectation.column)
                if value is not None and not expectation.is_expected(value):
                    found.add(expectation.column)
    return found


@pytest.mark.parametrize("sample", GOOD, ids=lambda sample: sample.name)
def test_a_good_sample_is_as_expected_in_every_field(sample: Any) -> None:
    assert faults(message(sample.topic, sample.value)) == set()


@pytest.mark.parametrize("sample", BAD, ids=lambda sample: sample.name)
def test_a_bad_sample_says_so_in_the_contract_column(sample: Any) -> None:
    rows = reading_of(sample.topic, [message(sample.topic, sample.value)])[sample.topic]
    assert [row["contract"] for row in rows] == [sample.reason]


@given(messages())
def test_the_expectations_of_fields_find_what_the_contract_refuses_and_nothing_else(drawn: tuple[str, bytes]) -> None:
    """But for what is no object at all, and for sums of a list, which the column `contract` has."""
    topic, value = drawn
    reasons = find_reasons(value, EVENTS[topic], INGEST_TIME_MS)
    if reasons in (["not_json"], ["too_large"], ["too_many: braces and brackets"]):
        return
    of_fields = [reason for reason in reasons if not reason.startswith("over_maximum: queues[].")]
    assert bool(faults(message(topic, value))) == bool(of_fields), reasons


@pytest.mark.parametrize(
    ("value", "contract"),
    [
        (None, "not_json"),
        (b"", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"[1]", "not_json"),
        (b'{"event_time_ms": NaN}', "not_json"),
        (b'{"a": ' * 40 + b"1" + b"}" * 40, "not_json"),
        (b"{" * 50_000, "not_json"),
        (b"{" * 100_000, "too_many"),
        (b'{"event_time_ms": ' + b"9" * 5_000 + b"}", "missing_field"),
    ],
    ids=["null", "empty", "not UTF-8", "list", "NaN", "too deep", "far too deep", "braces", "a huge number"],
)
def test_whatever_a_message_holds_becomes_one_row(value: bytes | None, contract: str) -> None:
    rows = reading_of(PULLS, [message(PULLS, value)])[PULLS]
    assert [row["contract"] for row in rows] == [contract]


def test_a_message_that_was_too_large_to_keep_is_reported_as_such() -> None:
    large = Message(PULLS, 0, 7, INGEST_TIME_MS, b"", 10 << 20)
    assert [row["contract"] for row in reading_of(PULLS, [large])[PULLS]] == ["too_large"]


def test_a_field_has_the_code_of_the_reason_and_the_element_that_has_it() -> None:
    event = json.loads(next(sample.value for sample in GOOD if sample.name == "good.heartbeats"))
    event["language"] = 7
    event["consumers"][0]["subscriptions"].append({"topic": ""})
    event["consumers"].append("none")
    readings = reading_of(HEARTBEATS, [message(HEARTBEATS, json.dumps(event).encode())])
    (row,) = readings[HEARTBEATS]
    assert (row["contract_language"], row["contract_consumers"]) == ("wrong_type", "wrong_type")
    assert row["contract_client_id"] == "kept"
    codes = [row["contract_topic"] for row in readings[f"{HEARTBEATS}.consumers.subscriptions"]]
    assert codes == ["kept"] * (len(codes) - 1) + ["empty_name"]


def test_elements_of_lists_have_rows_of_their_own() -> None:
    heartbeat = next(sample.value for sample in GOOD if sample.name == "good.heartbeats")
    readings = reading_of(HEARTBEATS, [message(HEARTBEATS, heartbeat, 3)])
    topics = [one["topic"] for one in json.loads(heartbeat)["consumers"][0]["subscriptions"]]
    assert len(readings[f"{HEARTBEATS}.consumers.subscriptions"]) == len(topics)
    assert {row["offset"] for rows in readings.values() for row in rows} == {3}


def said(topic: str, event: dict[str, Any]) -> Message:
    """The event as Kafka has it, which received it at its own time."""
    return message(topic, json.dumps(event).encode(), ingest_time_ms=event["event_time_ms"])


def pull(queue_id: int, second: float, **fields: Any) -> Message:
    return said(*events.pull(second, queue_id, **fields))


def route(read_queue_nums: int, second: float) -> Message:
    topic, event = events.route(second, read_queue_nums)
    event["queues"][0]["write_queue_nums"] = 0
    return said(topic, event)


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (pull(3, 1_000), "known"),
        (pull(4, 1_000), "unknown_queue"),
        (pull(0, 1_000, broker_name="b"), "unknown_broker"),
        (pull(0, 1_000, topic="payments"), None),
        (pull(0, 1_000, cluster="d"), None),
    ],
)
def test_a_pulls_queue_is_known_by_its_topics_route_and_not_judged_without_one(one: Message, word: str | None) -> None:
    assert reading_of(PULLS, [one], [route(4, 0)])[PULLS][0]["queue"] == word


@pytest.mark.parametrize(("second", "word"), [(159, "known"), (161, "unknown_queue"), (50, "known")])
def test_a_queue_that_went_away_is_known_for_a_minute(second: int, word: str) -> None:
    """Clients follow a changed route within 30 s, and what they did before is told a moment later."""
    routes = [route(4, 0), route(2, 100)]
    assert reading_of(PULLS, [pull(3, second)], routes)[PULLS][0]["queue"] == word


def test_the_same_message_again_is_a_copy() -> None:
    rows = reading_of(PULLS, [pull(0, 1), pull(1, 1), pull(0, 1), pull(0, 1)])[PULLS]
    assert [row["copies"] for row in rows] == [0, 0, 1, 2]


@pytest.mark.parametrize(("skew_ms", "ahead", "behind"), [(7_000, 7_000, 0), (-9_000, 0, 9_000), (0, 0, 0)])
def test_an_events_time_is_held_against_kafkas(skew_ms: int, ahead: int, behind: int) -> None:
    one = pull(0, skew_ms / 1_000)._replace(ingest_time_ms=START)
    row = reading_of(PULLS, [one])[PULLS][0]
    assert (row["ahead_ms"], row["behind_ms"]) == (ahead, behind)


def test_a_rate_is_reported_against_what_is_usual_once_enough_was_seen() -> None:
    routes, rates = Routes(), UsualRates()

    def look(step: float, start: int) -> Any:
        sample = [pull(0, start + number * step) for number in range(100)]
        return read(PULLS, sample, routes, rates)[PULLS][0]["rate_percent"]

    seen = [look(1, number * 1_000) for number in range(ENOUGH_LOOKS)]
    assert seen == [None] * ENOUGH_LOOKS
    assert look(1, 0) == 100
    assert look(0.05, 0) == pytest.approx(2_000, rel=0.05)


def test_a_flooding_producer_is_seen_in_its_own_rate() -> None:
    event = json.loads(log_of("healthy")[SEND_LATENCIES][0].value or b"")
    fast = [event | {"client_id": "fast", "event_time_ms": START_MS + number // 8} for number in range(16_000)]
    slow = [event | {"client_id": "slow", "event_time_ms": START_MS + number * 100} for number in range(30)]
    sent = [message(SEND_LATENCIES, json.dumps(one).encode(), n, START_MS) for n, one in enumerate(fast + slow)]
    rows = reading_of(SEND_LATENCIES, sent)[SEND_LATENCIES]
    assert rows[0]["source_per_second"] > 5_000
    assert rows[-1]["source_per_second"] < 15


@pytest.mark.parametrize("scenario", ["healthy", "dead_broker", *in_proof(["twins", "slow_broker", "frozen_client"])])
def test_modelled_clusters_are_as_expected_whatever_goes_wrong_in_them(scenario: str) -> None:
    """Troubles of RocketMQ are no troubles of the data."""
    log = log_of(scenario)
    for topic in EVENTS:
        readings = reading_of(topic, log[topic], log[ROUTES])
        for suite in suites_of(topic):
            counts = zip(suite.expectations, by_python(suite, readings[suite.name]), strict=True)
            assert [one.name for one, (is_success, _, _) in counts if not is_success] == [], suite.name


def test_every_suites_expectations_have_names_of_their_own() -> None:
    for suite in SUITES.values():
        names = [one.name for one in suite.expectations]
        assert len(names) == len(set(names))


def test_every_word_of_consume_from_where_is_known() -> None:
    """org.apache.rocketmq.common.consumer.ConsumeFromWhere has six, three of them deprecated."""
    words = ENUMERATIONS[f"{HEARTBEATS}.consumers", "consume_from_where"]
    assert len(words) == len(set(words)) == 6
    assert {"CONSUME_FROM_MIN_OFFSET", "CONSUME_FROM_MAX_OFFSET"} < set(words)
    assert "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST" in words


def test_the_enumerations_are_of_fields_the_contracts_have() -> None:
    for (name, field), words in ENUMERATIONS.items():
        comment = SUITES[name].schema[field].metadata["comment"]
        assert words[0] in comment
