"""Looks at samples of Kafka's topics: how large a sample may be, and which messages are in it."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from conf.settings import Settings
from schemas.events import PULLS, SEND_LATENCIES
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.quality.sample import Bounds
from tests.conftest import settings_for
from tests.schemas.samples import GOOD

pytestmark = pytest.mark.real


@pytest.fixture
def inspection() -> ModuleType:
    """Imported by who runs these tests: Great Expectations takes seconds, which collecting them need not."""
    return import_module("streaming.quality.inspection")


@pytest.fixture
def settings(empty_kafka: EmbeddedKafka, tmp_path: Path) -> Settings:
    return settings_for(empty_kafka, tmp_path)


def test_a_sample_from_kafka_is_bounded_whatever_is_in_it(settings: Settings, inspection: ModuleType) -> None:
    """Null, not UTF-8, far too deep, 10 MB: read, told as what they are, and never more bytes than allowed are kept."""
    good = next(sample.value for sample in GOOD if sample.topic == PULLS)
    looking = inspection.Inspection(settings, Bounds(8, 20 << 20))
    with Publisher(settings.kafka) as publisher:
        for value in (good, None, b"\xff", b"[" * 100_000, b'{"a": NaN}', b"x" * (10 << 20), good):
            publisher.publish_raw(PULLS, b"k", value)
        publisher.flush()
        before = looking.look(PULLS)
        publisher.publish_raw(PULLS, b"k", b"later")
        publisher.flush()
    newest = before.sample.messages[-1].offset
    contract = next(one for one in before.outcomes if one.expectation.column == "contract")
    assert (contract.evaluated, contract.unexpected) == (len(before.sample.messages), 5)
    assert set(contract.observed) == {"not_json", "too_many", "too_large"}
    assert sum(len(one.value or b"") for one in before.sample.messages) < 1 << 20
    ended = looking.look(PULLS, {0: newest + 1})
    assert ended.sample.messages[-1].offset == newest
    looking.close()


def test_the_newest_messages_are_in_it_whatever_lies_before_them(settings: Settings, inspection: ModuleType) -> None:
    """Many, more bytes than there is room for, and a large one among them: the newest block is whole, older ones go."""
    with Publisher(settings.kafka) as publisher:
        publisher.publish_raw(SEND_LATENCIES, b"k", b"x" * (10 << 20))
        for number in range(300):
            publisher.publish_raw(SEND_LATENCIES, b"k", b"%d" % number + b" " * 10_000)
        publisher.flush()
    looking = inspection.Inspection(settings, Bounds(2_000, 2 << 20))
    values = [one.value or b"" for one in looking.look(SEND_LATENCIES).sample.messages]
    looking.close()
    numbers = [int(value) for value in values if value.strip().isdigit()]
    assert numbers[-1] == 299
    assert numbers == list(range(numbers[0], 300))
    assert 16 <= len(numbers) < 200
