"""Messages into parcels: decoded once, each to the shards it concerns, sends run-lengthed once a task."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from schemas.decode import decode
from schemas.events import CLOCKS, HEARTBEATS, PULLS, SEND_LATENCIES
from streaming.queries import pack as packer
from streaming.queries.pack import pack
from streaming.queries.parcel import Parcel, decode_parcel, encode, shard_of
from streaming.replay.stream import Enveloper
from streaming.simulator import load_scenario, simulate

SHARDS = 4
START_MS = 1_750_000_000_000


@pytest.fixture(scope="module")
def messages() -> list[dict[str, Any]]:
    """A minute of all five topics, as one task may read it, and bad ones among them."""
    found = Enveloper().messages(simulate(load_scenario("demo"), 3, START_MS, 60_000))
    bad = [{**found[0], "topic": topic, "offset": 10_000, "value": b"no JSON"} for topic in (SEND_LATENCIES, PULLS)]
    return [*found, *bad]


def parcels_of(messages: Sequence[dict[str, Any]], batches: int = 1) -> list[list[Parcel]]:
    """Of a task that reads them in so many Arrow batches."""
    size = -(-len(messages) // batches)

    def arrow() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(messages), size):
            yield pa.RecordBatch.from_pylist(list(messages[start : start + size]))

    return list(pack(arrow(), SHARDS))


def test_every_shard_gets_a_parcel_of_every_arrow_batch(messages: list[dict[str, Any]]) -> None:
    """For each is told how far the partitions were read, whether anything concerns it or not."""
    for parcels in parcels_of(messages, 3):
        assert len(parcels) == SHARDS
        read = [[(one.topic, one.partition, one.first_offset, one.last_offset) for one in p.chunks] for p in parcels]
        assert read == [read[0]] * SHARDS


def test_groups_and_brokers_go_to_the_shard_their_names_hash_to_and_clocks_to_all(
    messages: list[dict[str, Any]],
) -> None:
    (parcels,) = parcels_of(messages)
    clocks = sum(message["topic"] == CLOCKS for message in messages)
    for number, parcel in enumerate(parcels):
        for chunk in parcel.chunks:
            for message in chunk.messages:
                event, _ = decode(chunk.topic, message.value, message.ingest_time_ms)
                if chunk.topic == PULLS:
                    assert shard_of(event.cluster, event.consumer_group, SHARDS) == number
                elif chunk.topic == HEARTBEATS and event.consumers:
                    groups = [one.consumer_group for one in event.consumers]
                    assert number in {shard_of(event.cluster, group, SHARDS) for group in groups}
            if chunk.topic == CLOCKS:
                assert len(chunk.messages) == clocks
        for cluster, broker_name, _ in parcel.sends:
            assert shard_of(cluster, broker_name or "", SHARDS) == number
    places = [(cluster, broker_name) for parcel in parcels for cluster, broker_name, _ in parcel.sends]
    assert len(places) == len(set(places)) > 1


def test_bad_messages_are_in_the_first_shard_s_parcel_alone(messages: list[dict[str, Any]]) -> None:
    """Any shard could quarantine them, so one does."""
    (parcels,) = parcels_of(messages)
    sends = [(topic, partition, reject.offset, reject.value) for topic, partition, reject in parcels[0].rejects]
    assert sends == [(SEND_LATENCIES, 0, 10_000, b"no JSON")]
    others = [(chunk.topic, reject.value) for chunk in parcels[0].chunks for reject in chunk.rejects]
    assert others == [(PULLS, b"no JSON")]
    for parcel in parcels[1:]:
        assert (parcel.rejects, [chunk.rejects for chunk in parcel.chunks if chunk.rejects]) == ([], [])


def test_sends_come_once_a_task_whatever_its_arrow_batches_are(messages: list[dict[str, Any]]) -> None:
    """With the last of them: a producer's attempts of a batch are one run."""
    (whole,) = parcels_of(messages)
    *before, last = parcels_of(messages, 7)
    assert len(before) == 6
    assert [(parcel.sends, parcel.rejects, parcel.sends_read) for parcels in before for parcel in parcels] == [
        ([], [], 0)
    ] * (6 * SHARDS)
    assert [_sends(parcel) for parcel in last] == [_sends(parcel) for parcel in whole]
    assert last[0].rejects == whole[0].rejects
    assert {parcel.sends_read for parcel in (*last, *whole)} == {10_001}  # the bad one's offset is 10,000


def _sends(parcel: Parcel) -> list[Any]:
    return [
        (cluster, broker_name, of_key.attempts, of_key.tick_ms, of_key.fleet)
        for cluster, broker_name, of_key in parcel.sends
    ]


def test_each_message_that_is_no_send_is_decoded_once(
    messages: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: Counter[str] = Counter()

    def count(topic: str, value: bytes | None, ingest_time_ms: int) -> Any:
        decoded[topic] += 1
        return decode(topic, value, ingest_time_ms)

    monkeypatch.setattr(packer, "decode", count)
    parcels_of(messages, 3)
    topics = Counter(message["topic"] for message in messages if message["topic"] != SEND_LATENCIES)
    assert decoded == topics


def test_a_task_that_reads_nothing_packs_nothing() -> None:
    assert list(pack([], SHARDS)) == []


def test_a_parcel_is_read_as_it_was_written(messages: list[dict[str, Any]]) -> None:
    for parcel in parcels_of(messages)[0]:
        again = decode_parcel(encode(parcel))
        assert again == parcel
