"""The thread that validates samples: when it runs, what it writes, and that its failures stay isolated."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings
from schemas.events import PULLS, SEND_LATENCIES
from schemas.expectations import holds
from schemas.suites import CONTRACT, SUITES
from streaming.quality import inspector as module
from streaming.quality.inspection import outcome_of
from streaming.quality.inspector import Inspector, QualityAlerts
from streaming.queries import balance
from streaming.queries.written_batch import WrittenBatch
from streaming.store.store import History
from streaming.warehouse.writer import DeltalakeWriter
from tests.quality.sampled import START_MS
from tests.support.row_writer import RowWriter, read_alerts

MINUTE = 60_000
PAUSE_SECONDS = 0.02


class FakeInspection:
    """Every look finds `bad` of 100 rows whose queue is not known."""

    def __init__(self) -> None:
        self.bad = 0
        self.looks: list[tuple[str, Mapping[int, int]]] = []
        self.looked = threading.Semaphore(0)
        self.failure: Exception | None = None
        self.closed = self.ended = self.stopped = 0

    def look(self, topic: str, ends: Mapping[int, int]) -> Any:
        self.looks.append((topic, ends))
        self.looked.release()
        if self.failure is not None:
            raise self.failure
        expectation = next(one for one in SUITES[topic].expectations if one.column == "queue")
        success = holds(expectation.mostly, 100, self.bad)
        examples = {f"{topic}-0@7": "unknown_queue"} if self.bad else {}
        return [outcome_of(topic, expectation, success, 100, self.bad, examples) | {"offsets": '{"0": [7, 7]}'}]

    def end_look(self) -> None:
        self.ended += 1

    def stop(self) -> None:
        self.stopped += 1

    def close(self) -> None:
        self.closed += 1


def put(file: Path, text: str) -> None:
    """Write the file atomically, as Spark does: the inspector may be reading."""
    written = file.parents[1] / f"{file.name}.written"
    written.write_text(text)
    written.replace(file)


class Place:
    """A warehouse, checkpoints of the query, and an inspector with shorter pauses than the settings allow."""

    def __init__(self, root: Path, *, every_batches: int = 3, pause_seconds: float = PAUSE_SECONDS) -> None:
        sections = {"warehouse": root / "warehouse", "checkpoints": root / "checkpoints"}
        settings = Settings.load(paths=sections)
        quality = {"every_batches": every_batches, "pause_seconds": pause_seconds}
        self.settings = settings.model_copy(update={"quality": settings.quality.model_copy(update=quality)})
        RowWriter(root / "warehouse")  # makes the tables faster than the writer
        self.fake = FakeInspection()
        self.reported: list[Any] = []
        self.batch_id = -1

    def begin(self) -> Inspector:
        writer = DeltalakeWriter(self.settings.paths.warehouse)
        inspector = Inspector(self.settings, writer, self.reported.extend)
        inspector._inspection = self.fake  # type: ignore[assignment]  # no Kafka here
        return inspector

    def read_up_to(
        self, topic: str, offset: int, query: str = "balance", *, first: int = 0, is_done: bool = True
    ) -> None:
        """Write the checkpoint of the next batch, which ends at this offset. The first batch began at `first`."""
        self.batch_id += 1
        checkpoint = self.settings.paths.checkpoints / query
        for folder in ("offsets", "commits", "sources/0"):
            (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        put(checkpoint / "metadata", '{"id": "x"}')
        put(checkpoint / "sources" / "0" / "0", f"v1\n{json.dumps({topic: {'0': first}})}")
        put(checkpoint / "offsets" / str(self.batch_id), f"v1\n{{}}\n{json.dumps({topic: {'0': offset}})}")
        if is_done:
            put(checkpoint / "commits" / str(self.batch_id), "v1\n{}")

    def quality(self) -> list[dict[str, Any]]:
        return History(self.settings.paths.warehouse).rows("SELECT * FROM quality ORDER BY batch_id")


def note_batch(inspector: Inspector, place: Place, quarantined: int = 0) -> None:
    rows = {"quarantine": [{"topic": SEND_LATENCIES}] * quarantined}
    inspector.on_batch(WrittenBatch(balance.NAME, place.batch_id, rows))


@contextmanager
def started(place: Place) -> Iterator[Inspector]:
    inspector = place.begin()
    inspector.start()
    try:
        yield inspector
    finally:
        inspector.stop()


@pytest.fixture(autouse=True)
def _polls_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_look_writes_the_outcome_of_each_expectation(place: Place) -> None:
    inspector = place.begin()
    place.read_up_to(SEND_LATENCIES, 50)
    place.fake.bad = 40
    inspector.look(START_MS)
    rows = place.quality()
    assert place.fake.looks == [(SEND_LATENCIES, {0: 50})]
    assert [(row["suite"], row["success"], row["evaluated"], row["unexpected"], row["query"]) for row in rows] == [
        (SEND_LATENCIES, False, 100, 40, "balance")
    ]
    assert (rows[0]["unexpected_share"], json.loads(rows[0]["offsets"])) == (0.4, {"0": [7, 7]})


def test_a_topic_without_new_messages_is_not_validated_again(place: Place) -> None:
    inspector = place.begin()
    place.read_up_to(SEND_LATENCIES, 50)
    inspector.look(START_MS)
    place.read_up_to(SEND_LATENCIES, 50)
    inspector.look(START_MS + MINUTE)
    place.read_up_to(SEND_LATENCIES, 51)
    inspector.look(START_MS + 2 * MINUTE)
    assert [ends for _, ends in place.fake.looks] == [{0: 50}, {0: 51}]
    assert place.fake.ended == 3, "the process that validates ends after each look"


@pytest.mark.parametrize("offset", [None, 50], ids=["without a batch", "read before a restart"])
def test_without_a_batch_since_the_start_nothing_is_validated(place: Place, offset: int | None) -> None:
    if offset is not None:
        place.read_up_to(SEND_LATENCIES, offset)
    place.begin().look(START_MS)
    assert place.fake.looks == []


def look_each_minute(place: Place, inspector: Inspector, minutes: Iterable[int]) -> None:
    """Validate once a minute, each time after another message."""
    for number in minutes:
        place.read_up_to(SEND_LATENCIES, number)
        inspector.look(START_MS + number * MINUTE)


def test_bad_looks_open_an_alert_that_a_restart_ends(place: Place) -> None:
    place.fake.bad = 40
    inspector = place.begin()
    look_each_minute(place, inspector, range(1, 4))
    inspector = place.begin()
    look_each_minute(place, inspector, range(4, 7))
    place.fake.bad = 0
    look_each_minute(place, inspector, range(7, 10))
    rows = read_alerts(place.settings.paths.warehouse, kind="data_quality")
    assert [(row["state"], row["changed_at"]) for row in rows] == [
        ("FIRING", "2025-06-15T15:09:40.000Z"),
        ("RESOLVED", "2025-06-15T15:15:40.000Z"),
    ]
    assert [row["state"] for row in place.reported] == ["FIRING", "RESOLVED"]
    assert len({row["incident_id"] for row in rows}) == 1


def judged(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the messages read and quarantined that each validation passes to the alerts."""
    reported: list[tuple[int, int]] = []
    judge = QualityAlerts.judge

    def note(self: QualityAlerts, topic: str, outcomes: Any, now_ms: int) -> Any:
        (contract,) = (row for row in outcomes if row["expectation"] == CONTRACT.name)
        reported.append((contract["evaluated"], contract["unexpected"]))
        return judge(self, topic, outcomes, now_ms)

    monkeypatch.setattr(QualityAlerts, "judge", note)
    return reported


def test_a_topic_that_cannot_be_validated_holds_up_no_other(place: Place) -> None:
    """The second of five topics fails: the rows of the others are written, and it is validated again."""
    inspector = place.begin()
    topics = balance.TOPICS
    look, broken = place.fake.look, topics[1]

    def look_or_fail(topic: str, ends: Mapping[int, int]) -> Any:
        place.fake.looks.append((topic, ends))
        if topic == broken:
            raise TypeError("an integer that no column holds")
        return [row | {"topic": topic} for row in look(PULLS, ends)]

    place.fake.look = look_or_fail  # type: ignore[method-assign]  # an unforeseen message
    place.read_up_to(PULLS, 1, "balance")
    offsets = json.dumps({topic: {"0": 5} for topic in topics})
    (place.settings.paths.checkpoints / "balance/offsets/0").write_text(f"v1\n{{}}\n{offsets}")
    inspector.look(START_MS)
    assert len(place.quality()) == len(topics) - 1
    place.fake.looks.clear()
    inspector.look(START_MS + MINUTE)
    assert [topic for topic, _ in place.fake.looks] == [broken]


def fail_first(inspector: Inspector, monkeypatch: pytest.MonkeyPatch, table_name: str | None = None) -> None:
    """Fail the first write to this table, or to any table, as on a full disk."""
    write, failures = inspector._writer.append, iter([OSError("disk full")])

    def append(table: Any, *rest: Any) -> None:
        if table_name in (None, table.name) and (failure := next(failures, None)) is not None:
            raise failure
        write(table, *rest)

    monkeypatch.setattr(inspector._writer, "append", append)


def test_a_look_that_fails_loses_no_count(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a failed sample nor a failed write loses a count or counts it twice."""
    inspector = place.begin()
    kept = judged(monkeypatch)
    fail_first(inspector, monkeypatch)
    for number in range(1, 5):
        place.read_up_to(SEND_LATENCIES, 100 * number)
        note_batch(inspector, place, 30)
        place.fake.failure = ValueError("cannot be") if number == 1 else None
        with suppress(OSError):
            inspector.look(START_MS + number * MINUTE)
    assert kept == [(200, 60), (300, 90), (100, 30)]


@pytest.mark.parametrize(
    ("first", "batches", "expected"),
    [
        (1_000_000, [(1_000_050, 0)], [(50, 0)]),
        (0, [(1_000, 10), (40, 10), (90, 10)], [(1_000, 10), (40, 10), (50, 10)]),
    ],
    ids=["Kafka has dropped the first million", "a recreated topic counts from its beginning"],
)
def test_counts_begin_where_the_query_did(
    place: Place, monkeypatch: pytest.MonkeyPatch, first: int, batches: list[Any], expected: list[Any]
) -> None:
    inspector = place.begin()
    kept = judged(monkeypatch)
    for offset, quarantined in batches:
        place.read_up_to(SEND_LATENCIES, offset, first=first)
        note_batch(inspector, place, quarantined)
        inspector.look(START_MS)
    assert kept == expected


def test_a_batchs_quarantine_counts_with_its_messages(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a batch are noted before Spark commits it, so a validation in between lacks its messages."""
    inspector = place.begin()
    kept = judged(monkeypatch)
    place.read_up_to(SEND_LATENCIES, 10)
    note_batch(inspector, place)
    place.read_up_to(SEND_LATENCIES, 1_010, is_done=False)
    note_batch(inspector, place, 20)
    inspector.look(START_MS)
    (place.settings.paths.checkpoints / "balance/commits" / str(place.batch_id)).write_text("v1\n{}")
    inspector.look(START_MS + MINUTE)
    assert kept == [(10, 0), (1_000, 20)]


def test_a_run_that_validates_nothing_resolves_open_alerts_at_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.fake.bad = 40
    look_each_minute(place, place.begin(), range(1, 4))
    for _ in range(2):
        idle = Place(tmp_path, every_batches=0)
        with started(idle):
            pass
        place.reported += idle.reported
        assert idle.fake.looks == []
    rows = read_alerts(place.settings.paths.warehouse, kind="data_quality")
    assert [row["state"] for row in rows] == ["FIRING", "RESOLVED"]
    assert [row["state"] for row in place.reported] == ["FIRING", "RESOLVED"]


def test_an_alert_that_could_not_be_written_is_opened_by_the_next_looks(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open alerts are read from the table."""
    place.fake.bad = 40
    inspector = place.begin()
    fail_first(inspector, monkeypatch, "alerts")
    for number in range(1, 4):
        place.read_up_to(SEND_LATENCIES, number)
        try:
            inspector.look(START_MS + number * MINUTE)
        except OSError:
            inspector._forget()
    assert place.reported == []
    look_each_minute(place, inspector, range(4, 7))
    assert [row["state"] for row in place.reported] == ["FIRING"]


def test_every_third_batch_leads_to_a_look_even_after_a_failed_one(place: Place) -> None:
    place.fake.failure = ValueError("cannot be")
    with started(place) as inspector:
        for number in range(1, 7):
            place.read_up_to(SEND_LATENCIES, number)
            note_batch(inspector, place)
            if number % 3 == 0:
                assert place.fake.looked.acquire(timeout=60)
        assert len(place.fake.looks) == 2
        assert inspector.is_alive()
    assert not inspector.is_alive()
    assert place.fake.closed >= 2
    assert place.fake.stopped == 1, "a validation is interrupted"


def test_batches_that_end_during_a_look_are_one_look_later(tmp_path: Path) -> None:
    """After a validation longer than the pause, one more covers all batches that ended meanwhile."""
    place = Place(tmp_path, every_batches=1)
    look, allowed = place.fake.look, threading.Semaphore(0)

    def look_slowly(topic: str, ends: Mapping[int, int]) -> Any:
        found = look(topic, ends)
        assert allowed.acquire(timeout=60)
        return found

    place.fake.look = look_slowly  # type: ignore[method-assign]  # a busy machine
    with started(place) as inspector:
        place.read_up_to(SEND_LATENCIES, 1)
        note_batch(inspector, place)
        assert place.fake.looked.acquire(timeout=60)
        for number in range(2, 9):
            place.read_up_to(SEND_LATENCIES, number)
            note_batch(inspector, place)
        allowed.release(2)
        assert place.fake.looked.acquire(timeout=60)
    assert [ends for _, ends in place.fake.looks] == [{0: 1}, {0: 8}]


def test_batches_while_it_pauses_are_one_look_later(tmp_path: Path) -> None:
    place = Place(tmp_path, every_batches=1, pause_seconds=3_600)
    with started(place) as inspector:
        place.read_up_to(SEND_LATENCIES, 1)
        note_batch(inspector, place)
        assert place.fake.looked.acquire(timeout=60)
        for number in range(2, 50):
            place.read_up_to(SEND_LATENCIES, number)
            note_batch(inspector, place)
    assert len(place.fake.looks) == 1
