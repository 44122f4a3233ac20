"""Publishing what was repaired: once, whatever dies; and looking for what a dead replay may have published."""

from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError

from conf.settings import Settings
from schemas.events import EVENTS, PULLS, ROUTES
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import PublishError
from streaming.quality import replaying as module
from streaming.quality.repair import judge
from streaming.quality.repairs import Place, Repairs
from streaming.quality.replaying import CLAIM, KEPT_BACK, MATTERS_MS, ORIGIN, Ready, Replay, find
from tests.conftest import settings_for
from tests.schemas.samples import GOOD, INGEST_TIME_MS

NOW_MS = INGEST_TIME_MS
KAFKA = Settings.load().kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})


def ready(offset: int, topic: str = PULLS) -> Ready:
    value = next(sample.value for sample in GOOD if sample.topic == topic)
    return Ready(Place(topic, 0, offset, NOW_MS), value, judge(topic, value, NOW_MS)[0])


class Sent:
    """A producer's answer."""

    def __init__(self, offset: int | None) -> None:
        self.partition, self.offset = 0, offset

    def get(self, timeout: float) -> "Sent":
        if self.offset is None:
            raise KafkaTimeoutError("no word")
        return self


class Producer:
    """Takes what it is given; `silent` are the origins that it does not confirm, `deadly` one that it dies of."""

    def __init__(self, silent: tuple[str, ...] = (), deadly: str = "") -> None:
        self.silent, self.deadly = silent, deadly
        self.sent: list[dict[str, Any]] = []

    def __call__(self, **_: Any) -> "Producer":
        return self

    def send(self, topic: str, key: bytes, value: bytes, headers: list[tuple[str, bytes]]) -> Sent:
        origin = dict(headers)[ORIGIN].decode()
        if origin == self.deadly:
            raise KeyboardInterrupt
        self.sent.append({"topic": topic, "key": key, "value": value, "headers": dict(headers)})
        return Sent(None if origin in self.silent else len(self.sent))

    def close(self, timeout: float) -> None:
        """Nothing is held."""


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    made = Producer()
    monkeypatch.setattr(module, "KafkaProducer", made)
    return made


def publish(tmp_path: Path, messages: list[Ready]) -> dict[int, str]:
    with Replay(KAFKA, Repairs(tmp_path), "ada") as replay:
        return {place.offset: state for place, state in replay.publish(messages, lambda: NOW_MS)}


def test_each_is_published_with_its_key_and_where_it_came_from(tmp_path: Path, producer: Producer) -> None:
    assert publish(tmp_path, [ready(1), ready(2)]) == {1: "REPLAYED", 2: "REPLAYED"}
    assert [one["headers"][ORIGIN] for one in producer.sent] == [b"rocketmq.pulls-0@1", b"rocketmq.pulls-0@2"]
    assert producer.sent[0]["key"] == b"DefaultCluster|order-service"
    standings = Repairs(tmp_path).standings()
    assert {one.state for one in standings.values()} == {"REPLAYED"}
    assert {one.claim_id.encode() for one in standings.values() if one.claim_id} == {producer.sent[0]["headers"][CLAIM]}


def test_a_second_replay_publishes_nothing(tmp_path: Path, producer: Producer) -> None:
    publish(tmp_path, [ready(1)])
    assert publish(tmp_path, [ready(1)]) == {1: "CLAIMED"}
    assert len(producer.sent) == 1


def test_what_kafka_does_not_confirm_is_unknown_and_stays_so(tmp_path: Path, producer: Producer) -> None:
    producer.silent = ("rocketmq.pulls-0@2",)
    assert publish(tmp_path, [ready(1), ready(2)]) == {1: "REPLAYED", 2: "UNKNOWN"}
    producer.silent = ()
    assert publish(tmp_path, [ready(2)]) == {2: "CLAIMED"}
    assert len(producer.sent) == 2


@pytest.mark.parametrize("deadly", range(3))
def test_a_replay_that_dies_anywhere_publishes_nothing_twice(tmp_path: Path, producer: Producer, deadly: int) -> None:
    """It dies at the first, the second and the third message; whoever comes next leaves alone what it had claimed."""
    producer.deadly = f"rocketmq.pulls-0@{deadly}"
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path, [ready(offset) for offset in range(3)])
    producer.deadly = ""
    publish(tmp_path, [ready(offset) for offset in range(4)])
    origins = [one["headers"][ORIGIN] for one in producer.sent]
    assert len(origins) == len(set(origins)) == deadly + 1


def test_a_replay_that_dies_leaves_no_more_unknown_than_it_claims_at_a_time(
    tmp_path: Path, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_A_TIME", 2)
    producer.deadly = "rocketmq.pulls-0@4"
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path, [ready(offset) for offset in range(9)])
    states = [one.state for _, one in sorted(Repairs(tmp_path).standings().items())]
    assert states == ["REPLAYED"] * 4 + ["UNKNOWN"] * 2


def test_without_a_broker_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**_: Any) -> None:
        raise KafkaError("away")

    monkeypatch.setattr(module, "KafkaProducer", away)
    with pytest.raises(PublishError, match="nothing was claimed"):
        publish(tmp_path, [ready(1)])
    assert Repairs(tmp_path).standings() == {}


def test_every_topic_says_how_old_an_event_may_be_and_old_routes_are_kept_back() -> None:
    assert set(MATTERS_MS) == set(EVENTS)
    assert KEPT_BACK == (ROUTES,)
    young, old = INGEST_TIME_MS + 1_000, INGEST_TIME_MS + 86_400_000
    assert [bool(ready(1, topic).age_note(young)) for topic in EVENTS] == [False] * 5
    assert [bool(ready(1, topic).age_note(old)) for topic in EVENTS] == [True] * 5


@pytest.fixture
def settings(kafka: EmbeddedKafka, tmp_path: Path) -> Settings:
    return settings_for(kafka, tmp_path)


@pytest.mark.real
def test_what_a_dead_replay_published_is_found_in_kafka(settings: Settings, tmp_path: Path) -> None:
    """By its claim: what another claim published from the same place is another message."""
    repairs = Repairs(tmp_path)
    with Replay(settings.kafka, repairs, "ada") as replay:
        assert [state for _, state in replay.publish([ready(41)], lambda: NOW_MS)] == ["REPLAYED"]
    claim_id = repairs.standings()[ready(41).place].claim_id or ""
    landed = find(settings.kafka, ready(41).place, claim_id, 0)
    assert landed is not None
    assert find(settings.kafka, ready(41).place, "another", 0) is None
    assert find(settings.kafka, ready(42).place, claim_id, 0) is None
