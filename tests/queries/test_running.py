"""How a query is stopped between two batches, and what a batch that comes too late is told; no Spark, no Delta."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from streaming.queries import running
from streaming.queries.running import Sink, StoppingError

BATCH: Any = object()


class Written:
    """Stands for the batch's action and its appends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[int] = []
        monkeypatch.setattr(Sink, "_write", lambda _, __, batch_id: (self.batches.append(batch_id) or {}, {}))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    return Written(monkeypatch)


def sink(checkpoint: Path) -> Sink:
    return Sink("name", checkpoint, writer=BATCH, on_batch=None)


def note(checkpoint: Path, batch_id: int) -> None:
    """As Spark does once it is through with a batch."""
    (checkpoint / "commits").mkdir(exist_ok=True)
    (checkpoint / "commits" / str(batch_id)).touch()


def test_a_query_without_a_batch_is_drained_at_once(tmp_path: Path, written: Written) -> None:
    sink(tmp_path).drain()


def test_no_batch_begins_after_draining(tmp_path: Path, written: Written) -> None:
    drained = sink(tmp_path)
    drained(BATCH, 4)
    note(tmp_path, 4)
    drained.drain()
    with pytest.raises(StoppingError, match="batch 5 runs at the next start"):
        drained(BATCH, 5)
    assert written.batches == [4]


def test_draining_waits_until_spark_has_noted_the_batch(tmp_path: Path, written: Written) -> None:
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
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
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


def test_a_query_that_ended_notes_nothing_more_and_is_not_waited_for(tmp_path: Path, written: Written) -> None:
    drained = sink(tmp_path)
    drained(BATCH, 7)
    with capture_logs() as logs:
        drained.drain(lambda: False)
    assert [(line["event"], line["batch_id"]) for line in logs] == [
        ("last batch not committed, the next start repeats it and skips its rows", 7)
    ]


class Heard:
    """Of rests. `seconds` are of those that ended."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.most: list[float] = []
        self.seconds: list[tuple[int, float]] = []

    def rests(self, name: str, seconds: float) -> None:
        self.most.append(seconds)
        self.began.set()

    def rested(self, name: str, batch_id: int, seconds: float) -> None:
        self.seconds.append((batch_id, seconds))


def resting(checkpoint: Path, heard: Heard, seconds: float = 60.0) -> Sink:
    """A sink that rests so long after every batch."""
    made = Sink("name", checkpoint, writer=BATCH, on_batch=None, rest_s=seconds, rest_listener=heard)
    made._rest.after = lambda *_: seconds  # type: ignore[method-assign]  # how long is Rest's to say
    return made


@pytest.mark.parametrize("wake", [Sink.drain, Sink.stay_awake])
def test_a_rest_ends_at_once_when_the_query_is_stopped_or_asked_for_all_there_is(
    tmp_path: Path, written: Written, wake: Callable[[Sink], None]
) -> None:
    heard = Heard()
    sleeper = resting(tmp_path, heard)
    note(tmp_path, 7)
    thread = threading.Thread(target=sleeper, args=(BATCH, 7))
    began = time.monotonic()
    thread.start()
    assert heard.began.wait(60)
    wake(sleeper)
    thread.join(timeout=50)
    assert not thread.is_alive()
    assert time.monotonic() - began < 50
    assert (heard.most, [batch_id for batch_id, _ in heard.seconds]) == ([60.0], [7])
    assert heard.seconds[0][1] < 50


def test_who_stays_awake_rests_again_when_it_may(tmp_path: Path, written: Written) -> None:
    heard = Heard()
    sleeper = resting(tmp_path, heard, 0.2)
    sleeper.stay_awake()
    sleeper(BATCH, 1)
    sleeper.may_rest()
    sleeper(BATCH, 2)
    (_, awake), (_, rested) = heard.seconds
    assert awake < 0.2 <= rested


def test_a_batch_is_written_and_others_may_drain_before_its_rest(tmp_path: Path, written: Written) -> None:
    """A stop waits for Spark's note of the batch, which comes once its rest is over."""
    heard = Heard()
    sleeper = resting(tmp_path, heard)
    thread = threading.Thread(target=sleeper, args=(BATCH, 7))
    thread.start()
    assert heard.began.wait(60)
    assert written.batches == [7]
    note(tmp_path, 7)
    sleeper.drain()
    with pytest.raises(StoppingError):
        sleeper(BATCH, 8)
    thread.join(timeout=50)
    assert not thread.is_alive()


def test_a_batch_that_failed_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Sink, "_write", fail)
    failed = sink(tmp_path)
    with pytest.raises(OSError, match="no space"):
        failed(BATCH, 7)
    failed.drain()
