"""Looks at samples of Kafka's topics: their size and messages, and the process that validates them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conf.settings import Settings
from schemas.events import PULLS, ROUTES, SEND_LATENCIES
from schemas.suites import BEHIND_MS, CONTRACT
from streaming.kafka_io.consumer import open_consumer
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.quality import inspection as module
from streaming.quality.inspection import Bounds, Inspection, Message, QualityError, Row, read_sample
from tests.conftest import settings_for
from tests.quality.sampled import log_of, reading_of, samples_of
from tests.schemas.samples import GOOD


@pytest.fixture
def settings(empty_kafka: EmbeddedKafka, tmp_path: Path) -> Settings:
    return settings_for(empty_kafka, tmp_path)


def sample_of(settings: Settings, topic: str, bounds: Bounds) -> list[Message]:
    consumer = open_consumer(settings.kafka)
    try:
        return read_sample(consumer, topic, None, bounds)
    finally:
        consumer.close()


def contract_of(outcomes: list[Row]) -> Row:
    return next(row for row in outcomes if row["expectation"] == CONTRACT.name)


@pytest.mark.real
def test_a_sample_from_kafka_is_bounded_whatever_is_in_it(settings: Settings) -> None:
    """Null, not UTF-8, far too deep, 10 MB: read, told as what they are, and never more bytes than allowed are kept."""
    good = next(sample.value for sample in GOOD if sample.topic == PULLS)
    looking = Inspection(settings, Bounds(8, 20 << 20))
    with Publisher(settings.kafka) as publisher:
        for value in (good, None, b"\xff", b"[" * 100_000, b'{"a": NaN}', b"x" * (10 << 20), good):
            publisher.publish_raw(PULLS, b"k", value)
        publisher.flush()
        before = contract_of(looking.look(PULLS))
        sample = sample_of(settings, PULLS, Bounds(8, 20 << 20))
        publisher.publish_raw(PULLS, b"k", b"later")
        publisher.flush()
    newest = sample[-1].offset
    assert json.loads(before["offsets"]) == {str(sample[0].partition): [sample[0].offset, newest]}
    assert (before["evaluated"], before["unexpected"]) == (len(sample), 5)
    assert set(before["observed"]) == {"not_json", "too_many", "too_large"}
    assert sum(len(one.value or b"") for one in sample) < 1 << 20
    assert contract_of(looking.look(PULLS, {0: newest + 1}))["offsets"] == before["offsets"]
    looking.close()


@pytest.mark.real
def test_the_newest_messages_are_in_it_whatever_lies_before_them(settings: Settings) -> None:
    """Many, more bytes than there is room for, and a large one among them: as many of the newest as have room."""
    with Publisher(settings.kafka) as publisher:
        publisher.publish_raw(SEND_LATENCIES, b"k", b"x" * (10 << 20))
        for number in range(300):
            publisher.publish_raw(SEND_LATENCIES, b"k", b"%d" % number + b" " * 10_000)
        publisher.flush()
    values = [one.value or b"" for one in sample_of(settings, SEND_LATENCIES, Bounds(2_000, 2 << 20))]
    numbers = [int(value) for value in values if value.strip().isdigit()]
    assert numbers[-1] == 299
    assert numbers == list(range(numbers[0], 300))
    assert 16 <= len(numbers) <= (2 << 20) // 10_000


def test_a_process_validates_until_it_ends_and_its_end_costs_one_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected value has its place. Events of a simulated past may be late by its length.

    This process cannot import Great Expectations meanwhile, and need not.
    """
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    inspection, readings = Inspection(Settings.load()), reading_of(ROUTES, samples_of(ROUTES))
    with monkeypatch.context() as broken:
        broken.setattr(module.sys, "executable", "/bin/false")
        with pytest.raises(QualityError, match="the process that validates ended with code"):
            inspection.validate(ROUTES, readings)
    outcomes = inspection.validate(PULLS, reading_of(PULLS, samples_of(PULLS)))
    outcome = next(row for row in outcomes if row["expectation"] == "contract_queue_id in set")
    assert outcome["observed"] == ["unknown_queue", "wrong_type"]
    assert outcome["sample_offsets"][0].startswith(f"{PULLS}-0@")
    process = inspection._process

    late = [one._replace(ingest_time_ms=one.ingest_time_ms + 2 * BEHIND_MS) for one in log_of("healthy")[ROUTES][:5]]
    monkeypatch.setattr(module, "open_consumer", lambda _: None)
    monkeypatch.setattr(module, "read_sample", lambda *_, **__: late)
    for past_ms, is_expected in ((0, False), (2 * BEHIND_MS, True)):
        inspection._past_ms = past_ms
        lateness = next(row for row in inspection.look(ROUTES) if row["expectation"] == "behind_ms in range")
        assert (lateness["success"], lateness["evaluated"]) == (is_expected, 5)

    assert process is not None
    assert process is inspection._process
    with pytest.raises(QualityError, match="KeyError"):
        inspection.validate(ROUTES, {})
    assert process.returncode is not None
    assert inspection.validate(ROUTES, readings)
    inspection.stop()
    with pytest.raises(QualityError):
        inspection.validate(ROUTES, readings)


def test_a_validation_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VALIDATE_SECONDS", 0.05)
    with pytest.raises(QualityError, match="ended with code -9"):
        Inspection(Settings.load()).validate(ROUTES, reading_of(ROUTES, samples_of(ROUTES)))


def test_run_does_not_import_great_expectations() -> None:
    """Its import takes 230 MB in the process that holds the tables."""
    program = "import sys; import streaming.service.run_command, streaming.quality.inspection; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert "streaming.quality.inspection" in done.stdout.split()
    assert "great_expectations" not in done.stdout.split()
