"""How a query is stopped between two batches, and how long it rests; no Spark, no Delta."""

import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from streaming.queries import running
from streaming.queries.running import MARGIN_S, SENDS_S, UNKNOWN_S, Rest, Sink, StoppingError, TickSeen

BATCH: Any = object()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The batches whose action and appends were done."""
    batches: list[int] = []
    monkeypatch.setattr(Sink, "_write", lambda _, __, batch_id: (batches.append(batch_id) or {}, {}))
    return batches


def sink(checkpoint: Path) -> Sink:
    return Sink("name", checkpoint, writer=BATCH, on_batch=None)


def note(checkpoint: Path, batch_id: int) -> None:
    """As Spark does once it is through with a batch."""
    (checkpoint / "commits").mkdir(exist_ok=True)
    (checkpoint / "commits" / str(batch_id)).touch()


def test_a_query_without_a_batch_is_drained_at_once(tmp_path: Path, written: list[int]) -> None:
    sink(tmp_path).drain()


def test_no_batch_begins_after_draining(tmp_path: Path, written: list[int]) -> None:
    drained = sink(tmp_path)
    drained(BATCH, 4)
    note(tmp_path, 4)
    drained.drain()
    with pytest.raises(StoppingError, match="batch 5 runs at the next start"):
        drained(BATCH, 5)
    assert written == [4]


def test_draining_waits_until_spark_has_noted_the_batch(tmp_path: Path, written: list[int]) -> None:
    """Stopped before that, it would be run again: by other rules perhaps, its rows being skipped as known."""
    drained = sink(tmp_path)
    drained(BATCH, 7)
    note(tmp_path, 6)
    thread = threading.Thread(target=drained.drain)
    thread.start()
    thread.join(timeout=0.2)
    assert thread.is_alive()
    note(tmp_path, 7)
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_draining_waits_for_a_note_that_comes_late_and_says_so(
    tmp_path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "COMMIT_SECONDS", 0.05)
    drained = sink(tmp_path)
    drained(BATCH, 7)
    with capture_logs() as logs:

        def is_active() -> bool:
            if len(logs) == 2:
                note(tmp_path, 7)
            return True

        drained.drain(is_active)
    assert [(line["log_level"], line["batch_id"]) for line in logs] == [("warning", 7)] * 2
    assert all(line["event"] == "stop delayed until Spark commits the last batch" for line in logs)


def test_a_query_that_ended_notes_nothing_more_and_is_not_waited_for(tmp_path: Path, written: list[int]) -> None:
    drained = sink(tmp_path)
    drained(BATCH, 7)
    with capture_logs() as logs:
        drained.drain(lambda: False)
    assert [(line["event"], line["batch_id"]) for line in logs] == [
        ("last batch not committed, the next start repeats it and skips its rows", 7)
    ]


def test_a_rest_ends_at_once_when_the_query_is_stopped_and_its_batch_was_written_before(
    tmp_path: Path, written: list[int]
) -> None:
    """A stop waits for Spark's note of the batch, which comes once its rest is over."""
    is_resting, heard = threading.Event(), Mock()
    heard.rests.side_effect = lambda *_: is_resting.set()
    sleeper = Sink("name", tmp_path, writer=BATCH, on_batch=None, rest_s=60.0, rest_listener=heard)
    sleeper._rest.after = lambda *_: 60.0  # type: ignore[method-assign]  # how long is Rest's to say
    thread = threading.Thread(target=sleeper, args=(BATCH, 7))
    began = time.monotonic()
    thread.start()
    assert is_resting.wait(60)
    assert written == [7]
    note(tmp_path, 7)
    sleeper.drain()
    with pytest.raises(StoppingError):
        sleeper(BATCH, 8)
    thread.join(timeout=50)
    assert not thread.is_alive()
    assert time.monotonic() - began < 50
    heard.rests.assert_called_once_with("name", 60.0)
    ((_, batch_id, seconds),) = [call.args for call in heard.rested.call_args_list]
    assert batch_id == 7
    assert seconds < 50


def test_a_batch_that_failed_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Sink, "_write", fail)
    failed = sink(tmp_path)
    with pytest.raises(OSError, match="no space"):
        failed(BATCH, 7)
    failed.drain()


KAFKA_AHEAD_S = 1_000.0


class Quiet:
    """A cluster with a tick every `every_s` and `rate` events a second; plays the batches that a rest leaves."""

    def __init__(self, every_s: float, rate: float, sends: int = 0, most_s: float = 5.0) -> None:
        self.rest = Rest(most_s)
        self.every_s, self.rate, self.sends = every_s, rate, sends
        self.now_s = 100.0
        self.batches: list[float] = []
        self.waits: list[float] = []

    def play(self, seconds: float) -> None:
        end_s, read_s, tick_s = self.now_s + seconds, self.now_s, self.now_s + 0.7
        while self.now_s < end_s:
            began_s = self.now_s
            self.batches.append(began_s)
            ticks = []
            while tick_s <= began_s:
                ticks.append(TickSeen("c", "t", round((tick_s + KAFKA_AHEAD_S) * 1000)))
                self.waits.append(began_s - tick_s)
                tick_s += self.every_s
            self.now_s += 0.3
            events = round((began_s - read_s) * self.rate)
            read_s = began_s
            self.now_s += self.rest.after(began_s, self.now_s, events, self.sends, ticks)


@pytest.mark.parametrize("every_s", [5.0, 10.0])
def test_a_quiet_stream_has_little_more_than_a_batch_a_tick_which_waits_for_none(every_s: float) -> None:
    quiet = Quiet(every_s, 22)
    quiet.play(200)
    quiet.batches, quiet.waits = [], []
    quiet.play(300)
    assert len(quiet.batches) <= 1.3 * 300 / min(every_s, 5.0)
    assert max(quiet.waits) <= 0.6
    assert sum(quiet.waits) / len(quiet.waits) <= 4 * MARGIN_S


def test_a_busy_stream_never_rests() -> None:
    busy = Quiet(5, 1_000)
    assert [busy.rest.after(at, at + 0.3, 400, 300, ()) for at in (1.0, 1.4, 1.8)] == [0, 0, 0]


def test_sends_wait_two_seconds_at_the_most() -> None:
    quiet = Quiet(5, 22, sends=3)
    quiet.play(60)
    assert max(after - before for before, after in pairwise(quiet.batches)) <= SENDS_S + 0.31


def test_without_clock_events_a_rest_is_short() -> None:
    rest = Rest(5)
    assert [rest.after(at, at + 0.3, 1, 0, ()) for at in (1.0, 3.0)] == [0, UNKNOWN_S]


def test_a_tick_that_is_overdue_is_looked_for_and_one_that_stays_away_is_given_up() -> None:
    quiet = Quiet(5, 22)
    quiet.play(60)
    now_s, rests = quiet.now_s, []
    for _ in range(200):
        rests.append(quiet.rest.after(now_s, now_s + 0.3, 5, 0, ()))
        now_s += 0.3 + rests[-1]
    assert rests.count(0.25) >= 20
    assert rests[-1] == UNKNOWN_S


def test_none_is_taken_where_none_is_set() -> None:
    quiet = Quiet(5, 22, most_s=0)
    quiet.play(10)
    assert len(quiet.batches) > 30
