"""Messages into parcels, decoded once, each for its shards; and the time up to which a batch is complete."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from schemas.decode import decode
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.queries import pack as packer
from streaming.queries.pack import pack
from streaming.queries.parcel import Chunk, Parcel, decode_parcel, encode, shard_of
from streaming.queries.running import plan_of
from streaming.queries.waiting import Planned, safe_time_ms
from streaming.replay.stream import Enveloper
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.queries.logs import log_of
from tests.support.engine import chunks_for

SHARDS = 4
START_MS = 1_750_000_000_000


@pytest.fixture(scope="module")
def messages() -> list[dict[str, Any]]:
    """A minute of all five topics, as one task may read it, and bad ones among them."""
    found = Enveloper().messages(Simulation(load_scenario("demo"), 3, START_MS).events(60_000))
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


def test_groups_and_brokers_go_to_the_shard_their_names_hash_to_and_clocks_and_routes_to_all(
    messages: list[dict[str, Any]],
) -> None:
    (parcels,) = parcels_of(messages)
    counts = Counter(message["topic"] for message in messages)
    for number, parcel in enumerate(parcels):
        for chunk in parcel.chunks:
            for message in chunk.messages:
                event, _ = decode(chunk.topic, message.value, message.ingest_time_ms)
                if chunk.topic == PULLS:
                    assert shard_of(event.cluster, event.consumer_group, SHARDS) == number
                elif chunk.topic == HEARTBEATS and event.consumers:
                    groups = [one.consumer_group for one in event.consumers]
                    assert number in {shard_of(event.cluster, group, SHARDS) for group in groups}
            if chunk.topic in (CLOCKS, ROUTES):
                assert len(chunk.messages) == counts[chunk.topic]
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
    assert not any(parcel.sends or parcel.rejects for parcels in before for parcel in parcels)
    assert [_sends(parcel) for parcel in last] == [_sends(parcel) for parcel in whole]
    assert last[0].rejects == whole[0].rejects


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


def seen(topic: str, partition: int, read: int, first: int = 0, **newest_ms: int) -> Chunk:
    return Chunk(topic, partition, first, first + read - 1, newest_ms, [], [])


@pytest.mark.parametrize(
    ("reason", "limit", "chunks", "safe"),
    [
        ("no limit, so nothing was cut", 0, [seen(PULLS, 0, 10, c=5)], None),
        ("far below the limit, so nothing was cut", 20, [seen(PULLS, 0, 10, c=5)], None),
        ("at the limit: complete up to what was read", 10, [seen(PULLS, 0, 10, c=5)], {"c": 5}),
        ("each partition may lose one to rounding", 12, [seen(PULLS, 0, 9, c=5), seen(PULLS, 1, 2, c=7)], {"c": 5}),
        ("rounding loses no more than that", 13, [seen(PULLS, 0, 8, c=5), seen(PULLS, 1, 2, c=7)], None),
        ("the slowest partition decides", 10, [seen(PULLS, 0, 5, c=5), seen(PULLS, 1, 5, c=3)], {"c": 3}),
        ("Arrow batches of one partition are one", 10, [seen(PULLS, 0, 5, c=3), seen(PULLS, 0, 5, 5, c=5)], {"c": 5}),
        ("a cluster at a time", 10, [seen(PULLS, 0, 5, c=3, d=9), seen(HEARTBEATS, 0, 5, c=4, d=8)], {"c": 3, "d": 8}),
        ("ticks themselves bound nothing", 10, [seen(CLOCKS, 0, 5, c=1), seen(PULLS, 0, 5, c=5)], {"c": 5}),
        ("only ticks were read, so nothing waits elsewhere", 5, [seen(CLOCKS, 0, 5, c=1)], None),
        ("a partition may hold what it has not shown", 10, [seen(PULLS, 0, 5, c=3), seen(PULLS, 1, 5)], {"c": 0}),
    ],
)  # fmt: skip
def test_time_is_safe_up_to(reason: str, limit: int, chunks: list[Chunk], safe: dict[str, int] | None) -> None:
    counts = Counter[tuple[str, int]]()
    for chunk in chunks:
        counts[chunk.topic, chunk.partition] += chunk.last_offset - chunk.first_offset + 1
    assert safe_time_ms(chunks, plan_of(counts, limit)) == safe, reason


@pytest.mark.parametrize(
    ("reason", "planned", "safe"),
    [
        ("Spark took all that there was", plan_of({(PULLS, 0): 900, (HEARTBEATS, 0): 50}, 1000), None),
        ("cut, though few offsets held a message", plan_of({(PULLS, 0): 1000}, 1000), {"c": 5}),
        ("cut, and a partition showed holes alone", plan_of({(PULLS, 0): 900, (HEARTBEATS, 0): 100}, 1000), {"c": 0}),
        ("cut, and a partition has no backlog", plan_of({(PULLS, 0): 1000, (HEARTBEATS, 0): 0}, 1000), {"c": 5}),
    ],
)
def test_a_batch_is_cut_when_spark_planned_it_so(reason: str, planned: Planned, safe: dict[str, int] | None) -> None:
    assert safe_time_ms([seen(PULLS, 0, 10, c=5)], planned) == safe, reason


def test_a_repeated_key_of_another_type_is_quarantined_before_a_shard_reads_it_again() -> None:
    """What a pack calls good, the shard decodes once more: the two may not disagree."""
    clock = next(message for message in log_of("twins", 1) if message["topic"] == CLOCKS)
    odd = {**clock, "value": clock["value"].replace(b"{", b'{"cluster":null,', 1)}
    (chunk,) = chunks_for([odd])
    assert [reject.reasons for reject in chunk.rejects] == [["missing_field: cluster"]]
    assert chunk.messages == []


def test_a_worker_that_packs_loads_no_pandas_and_whoever_needs_it_has_it() -> None:
    script = """
import sys
import pyarrow as pa, pyarrow.compute as pc
import streaming.queries.pack
pc.equal(pa.array(["a"]), "a")
from pyspark.testing.utils import have_numpy
assert "pandas" not in sys.modules and have_numpy
assert pa.table({"a": [1]}).to_pandas().shape == (1, 1)
"""
    subprocess.run([sys.executable, "-c", script], timeout=120, check=True)
