"""Events that no tick takes: the cluster is told to have no clock, and what waits for one is bounded."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas.decode import DECODERS
from schemas.events import CLOCKS, PULLS, ROUTES
from streaming.queries import events, shard, waiting
from streaming.queries.waiting import Planned
from tests.queries.events import Event, beat, clock, groups_of_two, pull, route
from tests.queries.logs import SECOND, START
from tests.support.engine import SHARDS, Stream, chunks_for, cut, messages_of, replay

pytestmark = pytest.mark.replay

ONCE = Planned(is_cut=False, is_once=True)


def log_of(from_s: int, until_s: int, *, ticks_until: int = 0) -> list[Event]:
    """A healthy group of one; ticks every 5 s, as long as there are any."""
    log: list[Event] = []
    for second in range(from_s, until_s, 5):
        if second % 30 == 0:
            log += [route(second), beat(second, "A", "h1:1")]
        log += [pull(second, queue_id) for queue_id in range(8)]
        if second < ticks_until:
            log.append(clock(second + 1))
    return log


def by_batches(events: list[Event], seconds: int = 5) -> dict[str, list[dict[str, Any]]]:
    newest_ms = max(event["event_time_ms"] for _, event in events)
    return Stream().feed_each(
        [one for one in events if from_ms <= one[1]["event_time_ms"] < from_ms + seconds * SECOND]
        for from_ms in range(START, newest_ms + 1, seconds * SECOND)
    )


def alerts_of(rows: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str, str, int]]:
    return [
        (row["kind"], row["cause"], row["state"], (row["changed_at"] - START) // SECOND)
        for row in rows.get("alerts", [])
    ]


def test_a_cluster_whose_clock_stops_is_reported_to_have_none_within_three_minutes_until_it_has_one() -> None:
    events = [*log_of(0, 600, ticks_until=200), *log_of(600, 900, ticks_until=900)]
    (fired, recovering, over) = alerts_of(by_batches(events))
    assert fired[:3] == ("cluster_no_data", "no_clock", "FIRING")
    assert 196 + 120 < fired[3] <= 196 + 185
    assert recovering[1:] == ("no_clock", "RECOVERING", 601)
    assert over[1:3] == ("no_clock", "RESOLVED")


def test_a_cluster_that_never_had_a_clock_is_reported_so_once() -> None:
    (fired,) = alerts_of(by_batches(log_of(0, 1_800)))
    assert fired[:3] == ("cluster_no_data", "no_clock", "FIRING")
    assert 180 < fired[3] <= 265  # rounds may be 180 s apart, and nobody knows yet


@pytest.mark.parametrize("ticks_until", [100, 590])
def test_a_backlog_that_ends_with_ticks_pages_nobody(ticks_until: int) -> None:
    stream = Stream()
    rows = stream.feed(log_of(0, 600, ticks_until=ticks_until))
    later = stream.feed([*log_of(600, 620), clock(620, source="run")])
    assert alerts_of(rows) == alerts_of(later) == []


def test_a_log_without_a_clock_that_is_read_once_says_so_whenever_it_was_written() -> None:
    messages = [{**one, "ingest_time_ms": START + 900 * SECOND} for one in messages_of(log_of(0, 600))]
    assert alerts_of(replay([messages])) == []
    (fired,) = alerts_of(replay([messages], plans=[ONCE]))
    assert fired[:3] == ("cluster_no_data", "no_clock", "FIRING")
    assert alerts_of(replay([messages_of(log_of(0, 100))], plans=[ONCE])) == []


@pytest.mark.parametrize(("off_s", "off"), [(-3600, CLOCKS), (-150, CLOCKS), (3600, "broker-b")])
def test_a_log_that_is_read_once_and_whose_clock_is_an_hour_behind_says_so(off_s: int, off: str) -> None:
    """What its ticks do not take gives data at each of its brokers, not at one that is ahead."""
    events = [
        (topic, {**event, "event_time_ms": event["event_time_ms"] + off_s * SECOND * (off in (topic, of_broker))})
        for topic, event in groups_of_two(600, 600)
        for of_broker in [event.get("broker_name")]
    ]
    messages = [{**one, "ingest_time_ms": START + 900 * SECOND} for one in messages_of(events)]
    reported = [row[:3] for row in alerts_of(replay([messages], plans=[ONCE])) if row[0] == "cluster_no_data"]
    assert reported == [("cluster_no_data", "no_clock", "FIRING")] * (off_s == -3600)


def test_what_waits_is_bounded_and_the_drop_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST_EVENTS", 500)
    monkeypatch.setattr(shard, "SWEEP_EVENTS", 50)
    stream, rows, sizes = Stream(), [], []
    for minute in range(40):
        rows += stream.feed(log_of(60 * minute, 60 * minute + 60)).get("alerts", [])
        sizes.append(sum(map(len, stream._store.pending)))
    assert max(sizes[10:]) <= 1.05 * max(sizes[:10])
    assert [(row["cause"], row["state"]) for row in rows] == [("no_clock", "FIRING"), ("events_dropped", "FIRING")]
    assert rows[1]["inhibited_by"] == rows[0]["incident_id"]
    rows = stream.feed([*log_of(2400, 2500, ticks_until=2500)])
    over = [row for row in rows["alerts"] if row["cause"] == "events_dropped"]
    assert [row["state"] for row in over] == ["RESOLVED"]
    assert "events were dropped in total" in over[0]["summary"]
    newest = {row["queue_id"]: row["verdict"] for row in rows["assignments"]}
    assert set(newest.values()) == {"OK"}  # the newest heartbeats and the routes were kept


def test_the_oldest_is_dropped_first_and_routes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST_EVENTS", 8)
    chunks = chunks_for(messages_of([route(0), *(pull(second, 1) for second in range(1, 10))]))
    kept, dropped = waiting.bounded([replace(chunk, pullings=[]) for chunk in chunks])
    left = [(chunk.topic, message.offset) for chunk in kept for message in chunk.messages]
    assert left == [(ROUTES, 0), *((PULLS, offset) for offset in range(4, 9))]
    assert dropped == {"c": 4}


@pytest.mark.parametrize("ahead_s", [600, 1_800])
def test_an_agent_whose_clock_is_ahead_makes_nothing_wait(ahead_s: int) -> None:
    stream, sizes = Stream(), []
    for second in range(0, 900, 5):
        now_ms = START + second * SECOND
        part = log_of(second, second + 5, ticks_until=900)
        shifted = [
            (topic, event if topic == CLOCKS else {**event, "event_time_ms": event["event_time_ms"] + ahead_s * SECOND})
            for topic, event in part
        ]
        stream.feed(shifted, lambda _, now_ms=now_ms: now_ms)
        sizes.append(sum(map(len, stream._store.pending)))
    assert max(sizes[10:]) <= max(sizes[:10])


class CountingDecoder:
    """Decodes a topic's messages, and notes each."""

    def __init__(self, topic: str, decoded: list[bytes]) -> None:
        self._decoder, self._decoded = DECODERS[topic], decoded

    def decode(self, value: bytes) -> Any:
        self._decoded.append(value)
        return self._decoder.decode(value)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The messages that the shard decodes."""
    values: list[bytes] = []
    monkeypatch.setattr(events, "DECODERS", {topic: CountingDecoder(topic, values) for topic in DECODERS})
    return values


def test_a_shard_decodes_each_message_once(decoded: list[bytes]) -> None:
    log = log_of(0, 120, ticks_until=120)
    Stream().feed(log)
    assert sorted(decoded) == sorted(msgspec.json.encode(event) for _, event in log)


def test_another_clusters_ticks_do_not_decode_what_waits(decoded: list[bytes]) -> None:
    stream = Stream()
    stream.feed(log_of(0, 60))
    stream.feed([(topic, {**event, "cluster": "d"}) for topic, event in log_of(60, 65, ticks_until=70)])
    decoded.clear()
    stream.feed([(topic, {**event, "cluster": "d"}) for topic, event in log_of(65, 70, ticks_until=70)])
    assert {msgspec.json.decode(value)["cluster"] for value in decoded} == {"d"}


def test_a_clockless_log_reports_the_same_however_it_is_cut_among_shards() -> None:
    messages = messages_of(log_of(0, 600))
    (fired,) = alerts_of(replay(cut(messages, 60)))
    assert fired[:3] == ("cluster_no_data", "no_clock", "FIRING")
    assert SHARDS > 1


def test_a_cluster_nobody_has_heard_of_for_a_day_is_dropped_and_what_is_open_is_not() -> None:
    stream, day = Stream(), 86_400
    stream.feed([(topic, {**event, "cluster": "gone"}) for topic, event in log_of(0, 60, ticks_until=60)])
    dead = [clock(60 + second, brokers_answered=[], cluster="dead") for second in range(0, 200, 5)]
    stream.feed([(topic, {**event, "cluster": "dead"}) for topic, event in log_of(0, 60, ticks_until=60)] + dead)
    for hours in (23, 25):
        rows = stream.feed(log_of(hours * 3_600, hours * 3_600 + 60, ticks_until=2 * day))
        clusters = stream.kept.shard_index.clusters.keys()
        assert clusters == ({"gone", "dead", "c"} if hours == 23 else {"dead", "c"})
    assert {row["verdict"] for row in rows["assignments"] if row["cluster"] == "gone"} == {"NOT_JUDGED"}
    assert {row["change"] for row in rows["memberships"] if row["cluster"] == "gone"} == {"LEFT"}
    kept = stream.kept
    of_all = [*kept.groups.all_keys(), *kept.routes.all_keys(), *kept.channels.all_keys()]
    assert of_all
    assert not [key for key in of_all if "4:gone" in key]


def test_a_topic_that_is_not_said_for_a_day_while_others_are_is_deleted() -> None:
    stream, changed = Stream(), []
    stream.feed([route(0), route(0, 4, "others"), beat(0, "A", "h1:1"), clock(5)])
    for second in range(30, 33 * 3_600, 300):
        rows = stream.feed([route(second, 4, "others"), beat(second, "A", "h1:1"), clock(second + 1)])
        changed += [(second, row["verdict"]) for row in rows.get("assignments", ()) if row["topic"] == "orders"]
    assert stream.kept.routes.all_keys() == ["1:c|6:others"]
    assert {verdict for second, verdict in changed if second > 24 * 3_600} == {"NOT_JUDGED"}
