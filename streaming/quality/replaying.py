"""Publishing of repaired messages, each at most once: claim, publish, confirm, record.

Only the replay whose claim is in the table publishes a message, and a message is claimed once. A crash after the claim,
or a missing confirmation, leaves the message UNKNOWN; `find` searches Kafka for it. Headers of a published message have
its origin and claim.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from conf.settings import Kafka
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES, key_of
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.kafka_io.publisher import PublishError
from streaming.kafka_io.topics import client_options
from streaming.quality.repairs import Place, Repairs, chunks

ORIGIN, CLAIM = "balancewatch-origin", "balancewatch-claim"
AT_A_TIME = 100
CONFIRM_SECONDS = 30.0
FIND_SECONDS = 120.0

MATTERS_MS: Mapping[str, tuple[int, str]] = {
    HEARTBEATS: (120_000, "the broker has dropped that channel since"),
    PULLS: (120_000, "the client has pulled again or dropped the queue since"),
    SEND_LATENCIES: (1_800_000, "its FaultItem has expired"),
    ROUTES: (60_000, "a newer route exists, and Kafka would keep this old one as the newest of its key"),
    CLOCKS: (60_000, "later clock events have been processed"),
}
"""Topic to the maximum age, in ms, of an event that still has an effect, and why an older one has none."""

KEPT_BACK = (ROUTES,)
"""Topics whose old events cause harm; --old publishes them."""


class Ready(NamedTuple):
    """A message that keeps its contract now: what is published for it."""

    place: Place
    value: bytes
    event: Any

    def age_note(self, now_ms: int) -> str:
        """Why it comes too late to matter, or nothing."""
        matters_ms, why = MATTERS_MS[self.place.topic]
        return why if now_ms - self.event.event_time_ms > matters_ms else ""


class Replay:
    """Publishes. Use as a context manager."""

    def __init__(self, kafka: Kafka, repairs: Repairs, owner: str) -> None:
        """Raises PublishError when no broker answers: nothing is claimed then."""
        self._repairs, self._owner = repairs, owner
        try:
            self._producer = KafkaProducer(
                bootstrap_servers=kafka.bootstrap_servers.split(","),
                enable_idempotence=True,
                acks="all",
                max_request_size=16 << 20,
                delivery_timeout_ms=int(CONFIRM_SECONDS * 1000),
                request_timeout_ms=int(CONFIRM_SECONDS * 500),
                **client_options(kafka.options),
            )
        except KafkaError as error:
            raise PublishError(
                f"kafka.bootstrap_servers = {kafka.bootstrap_servers!r}: {type(error).__name__}; nothing was claimed"
            ) from None

    def publish(self, ready: Sequence[Ready], now_ms: Callable[[], int]) -> Iterator[tuple[Place, str]]:
        """Each message with REPLAYED, UNKNOWN, or CLAIMED: somebody else has it. Raises BusyError."""
        by_place = {one.place: one for one in ready}
        for places in chunks(by_place, AT_A_TIME):
            values = {place: by_place[place].value for place in places}
            claim_id, claimed = self._repairs.claim(values, self._owner, now_ms())
            landed = self._send([by_place[place] for place in claimed], claim_id)
            self._repairs.done(claim_id, landed, self._owner, now_ms())
            for place in places:
                yield place, "REPLAYED" if place in landed else "UNKNOWN" if place in claimed else "CLAIMED"

    def _send(self, ready: Sequence[Ready], claim_id: str) -> dict[Place, tuple[int, int]]:
        """Where Kafka says that it has them."""
        futures = {}
        for one in ready:
            headers = [(ORIGIN, str(one.place).encode()), (CLAIM, claim_id.encode())]
            key = key_of(one.place.topic, {name: getattr(one.event, name) for name in one.event.__struct_fields__})
            try:
                futures[one.place] = self._producer.send(one.place.topic, key=key, value=one.value, headers=headers)
            except KafkaError:
                continue  # no word that it is there
        landed = {}
        deadline = time.monotonic() + CONFIRM_SECONDS + 5
        for place, future in futures.items():
            try:
                record = future.get(timeout=max(0.1, deadline - time.monotonic()))
                landed[place] = (record.partition, record.offset)
            except KafkaError:
                continue
        return landed

    def __enter__(self) -> "Replay":
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close(timeout=5)


def find(kafka: Kafka, place: Place, claim_id: str, since_ms: int) -> tuple[int, int] | None:
    """(partition, offset) of the message that this claim published, or None. Raises KafkaError, TimeoutError.

    `since_ms` is when it was claimed: what Kafka got before is not looked at.
    """
    consumer = open_consumer(kafka)
    try:
        return _find(consumer, place, claim_id, since_ms)
    finally:
        consumer.close()


def _find(consumer: KafkaConsumer, place: Place, claim_id: str, since_ms: int) -> tuple[int, int] | None:
    ends = {}
    for (topic, partition), span in read_spans(consumer, [place.topic]).items():
        ends[TopicPartition(topic, partition)] = span.end
    consumer.assign(list(ends))
    starts = consumer.offsets_for_times(dict.fromkeys(ends, max(0, since_ms - 60_000)))
    left = set()
    for at, end in ends.items():
        begin = starts[at].offset if starts.get(at) else end
        consumer.seek(at, begin)
        left |= {at} if begin < end else set()
    wanted = {(CLAIM, claim_id.encode()), (ORIGIN, str(place).encode())}
    deadline = time.monotonic() + FIND_SECONDS
    while left:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{place.topic} could not be read to its end within {FIND_SECONDS:.0f} s")
        for at, records in consumer.poll(timeout_ms=500).items():
            for record in records:
                if wanted <= set(record.headers or ()):
                    return record.partition, record.offset
            if consumer.position(at) >= ends[at]:
                left.discard(at)
    return None
