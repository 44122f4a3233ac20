"""Packs keep every byte, and tell how far it is safe to move time on when a batch was cut."""

import pytest

from schemas.events import CLOCKS, HEARTBEATS, PULLS
from streaming.queries.parcel import Chunk, Message, Reject, decode_chunks, encode
from streaming.queries.running import plan_of
from streaming.queries.shard import shard_of
from streaming.queries.waiting import Planned, reached, safe_time_ms
from tests.engine import chunks_for
from tests.queries.logs import log_of, renumbered

CHUNK = Chunk(
    PULLS, 3, 0, 4, {"c": 9}, [Message(0, 1, b"\xff\0")], [Reject(1, 2, None, ["not_json"]), Reject(2, 3, b"", [])]
)


def seen(topic: str, partition: int, read: int, first: int = 0, **newest_ms: int) -> Chunk:
    return Chunk(topic, partition, first, first + read - 1, newest_ms, [], [])


def test_a_pack_is_read_as_it_was_written() -> None:
    assert decode_chunks(encode([CHUNK, CHUNK])) == [CHUNK, CHUNK]


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
    assert safe_time_ms(chunks, Planned(reached(limit, chunks))) == safe, reason


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


def test_offsets_that_hold_no_row_count_towards_the_limit() -> None:
    gaps = [{**m, "offset": m["offset"] * 100} for m in log_of("healthy", 1)[0] if m["topic"] == PULLS][:10]
    (chunk,) = chunks_for(gaps)
    assert reached(900, [chunk])


def test_each_message_goes_to_the_shards_it_concerns() -> None:
    messages = log_of("twins", 1)[0][:300]
    for chunks in zip(*(chunks_for(messages, number, 4) for number in range(4)), strict=True):
        of_topic = [message for message in messages if message["topic"] == chunks[0].topic]
        owner = shard_of("modelled", "order-service", 4)
        for number, chunk in enumerate(chunks):
            assert (chunk.last_offset - chunk.first_offset + 1, chunk.newest_ms) == (len(of_topic), chunks[0].newest_ms)
            if chunk.topic == PULLS:
                assert len(chunk.messages) == (len(of_topic) if number == owner else 0)
            elif chunk.topic != HEARTBEATS:
                assert len(chunk.messages) == len(of_topic)


def test_rejects_are_reported_once_with_their_place_and_bytes() -> None:
    messages = renumbered([{**log_of("twins", 1)[0][0], "value": value} for value in (None, b"{", b"\xff")])
    chunks = [chunk for number in range(3) for chunk in chunks_for(messages, number, 3)]
    assert [(reject.offset, reject.value, reject.reasons) for reject in chunks[0].rejects] == [
        (0, None, ["not_json"]),
        (1, b"{", ["not_json"]),
        (2, b"\xff", ["not_json"]),
    ]
    assert [chunk.rejects for chunk in chunks[1:]] == [[], []]
    assert chunks[0].last_offset - chunks[0].first_offset + 1 == 3


def test_a_repeated_key_of_another_type_is_quarantined_before_a_shard_reads_it_again() -> None:
    """What a pack calls good, the shard decodes once more: the two may not disagree."""
    clock = next(message for message in log_of("twins", 1)[0] if message["topic"] == CLOCKS)
    odd = {**clock, "value": clock["value"].replace(b"{", b'{"cluster":null,', 1)}
    (chunk,) = chunks_for([odd])
    assert [reject.reasons for reject in chunk.rejects] == [["missing_field: cluster"]]
    assert chunk.messages == []
