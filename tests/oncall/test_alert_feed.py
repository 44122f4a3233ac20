"""A relay whose stream is away: it reads the table itself, goes on delivering, and says when there is no hope."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import typer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.command import guard
from streaming.logs import set_up_logs
from streaming.oncall import alert_feed, relay_command
from streaming.oncall.alert_feed import AlertFeed, AlertLogError, NewFiles, is_gone
from streaming.oncall.relay_thread import RelayThread
from streaming.oncall.transition import Transition
from streaming.queries.warehouse import DeltalakeWriter, append_rows, table_path
from tests.oncall.fakes import FakeServer
from tests.oncall.stage import START_MS, Row, alert_row

Write = Callable[..., None]


@pytest.fixture
def hook() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path, hook: FakeServer) -> Settings:
    return settings_of(tmp_path, hook.url)


@pytest.fixture
def write(settings: Settings) -> Write:
    writer = DeltalakeWriter(settings.paths.warehouse)
    batches = iter(range(100))

    def write(*rows: Row) -> None:
        append_rows(writer, {"alerts": list(rows)}, "app", next(batches))

    return write


class Context:
    """Of a session whose JVM is there or not."""

    def __init__(self, *, is_stopped: bool | None) -> None:
        self._is_stopped = is_stopped
        self.sparkContext = self
        self._jsc = self

    def sc(self) -> "Context":
        if self._is_stopped is None:
            raise ConnectionRefusedError("[Errno 111] Connection refused")
        return self

    def isStopped(self) -> bool | None:  # noqa: N802  # Spark's name
        return self._is_stopped

    def stop(self) -> None:
        raise ConnectionRefusedError("[Errno 111] Connection refused")


def session(*, is_stopped: bool | None) -> Callable[[], SparkSession]:
    return lambda: cast(SparkSession, Context(is_stopped=is_stopped))


def settings_of(root: Path, url: str) -> Settings:
    oncall: dict[str, Any] = {
        "receivers": [{"name": "hook", "type": "webhook", "url": url}],
        "routes": [{"name": "all", "receivers": ["hook"]}],
        "poll_seconds": 0.05,
    }
    paths = {"warehouse": root / "warehouse", "checkpoints": root / "checkpoints"}
    return Settings.load(paths=paths, oncall=oncall)


def told(hook: FakeServer) -> list[str]:
    return [f"{one['fingerprint']} {one['status']}" for call in hook.received for one in call.fields["alerts"]]


def until(is_so: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be within its time limit"
        time.sleep(0.02)


@pytest.mark.parametrize(("is_stopped", "gone"), [(False, False), (True, True), (None, True)])
def test_a_session_is_gone_when_it_was_stopped_or_nobody_answers(is_stopped: bool | None, gone: bool) -> None:
    assert is_gone(session(is_stopped=is_stopped)) is gone


def test_only_files_that_came_since_are_read_and_each_once(settings: Settings, write: Write) -> None:
    seen: list[str] = []

    def observe(transitions: list[Transition]) -> None:
        seen.extend(transition.notice.alert_id for transition in transitions)

    write(alert_row("a", "FIRING", START_MS))
    files = NewFiles(settings.paths.warehouse, 1)
    files.read_to(observe)
    assert (seen, files.version) == ([], 1)
    write(alert_row("b", "FIRING", START_MS))
    write(alert_row("c", "FIRING", START_MS))
    files.read_to(observe)
    files.read_to(observe)
    assert (sorted(seen), files.version) == (["b", "c"], 3)


def test_what_the_stream_has_long_handed_over_is_skipped_one_look_late(settings: Settings, write: Write) -> None:
    seen: list[str] = []
    write(alert_row("a", "FIRING", START_MS))
    files = NewFiles(settings.paths.warehouse, 0)
    files.skip()
    assert files.version == 0
    write(alert_row("b", "FIRING", START_MS))
    files.skip()
    assert files.version == 1
    files.read_to(lambda rows: seen.extend(row.notice.alert_id for row in rows))
    assert seen == ["b"]


def test_without_a_stream_the_relay_goes_on_delivering(settings: Settings, hook: FakeServer, write: Write) -> None:
    write(alert_row("a", "FIRING", START_MS))
    relay = RelayThread(settings, session(is_stopped=None))
    relay.start()
    assert hook.wait_for(1)
    write(alert_row("b", "FIRING", START_MS))
    assert hook.wait_for(2)
    write(alert_row("a", "RESOLVED", START_MS + 1))
    assert hook.wait_for(3)
    until(relay.lost)
    write(alert_row("c", "FIRING", START_MS))
    relay.stop()
    assert not relay.is_alive()
    assert told(hook) == ["a firing", "b firing", "a resolved", "c firing"]


def test_a_stream_that_fails_again_and_again_is_lost_and_one_that_failed_once_is_not(
    settings: Settings, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_feed, "PAUSE_MOST_SECONDS", 0.01)
    feed = AlertFeed(session(is_stopped=False), settings, 0, lambda _: None)
    assert feed.lost() is None
    feed._failures, feed._failed = 1, "no"
    assert feed.lost() is None
    feed.start()
    until(feed.lost)
    assert "the stream of the alerts failed" in str(feed.lost())
    feed._stop.set()
    feed._thread.join(20)


def test_a_changed_receiver_is_told_without_a_restart_and_nothing_is_told_twice(
    tmp_path: Path, settings: Settings, hook: FakeServer, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(alert_row("a", "FIRING", START_MS))
    relay = RelayThread(settings, session(is_stopped=None))
    relay.start()
    assert hook.wait_for(1)
    broken = settings.oncall.receivers[0].model_copy(update={"url": None, "url_env": "NOT_THERE"})
    monkeypatch.delenv("NOT_THERE", raising=False)
    relay.renew(settings.model_copy(update={"oncall": settings.oncall.model_copy(update={"receivers": (broken,)})}))
    write(alert_row("b", "FIRING", START_MS))
    assert hook.wait_for(2)
    with FakeServer() as other:
        relay.renew(settings_of(tmp_path, other.url))
        until(lambda: relay._feed is not None and relay._feed._settings is relay._settings)
        write(alert_row("c", "FIRING", START_MS))
        assert other.wait_for(1)
        relay.stop()
        assert (told(hook), told(other)) == (["a firing", "b firing"], ["c firing"])


def test_the_command_ends_with_1_and_a_sentence_when_spark_is_gone(
    settings: Settings, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("streaming.session.start_spark", lambda *_: session(is_stopped=None)())
    set_up_logs(settings.log)
    with pytest.raises(typer.Exit) as end:
        guard(relay_command._run, settings, 60.0, threading.Event())
    assert end.value.exit_code == 1
    assert "error: the Spark session is gone" in capsys.readouterr().err


def test_what_maintenance_writes_anew_is_not_new_while_the_stream_is_away(settings: Settings, write: Write) -> None:
    """Compacted rows and rows that a deletion left are not handed over again; what was appended meanwhile is, once."""
    seen: list[str] = []
    write(alert_row("a", "FIRING", START_MS))
    write(alert_row("gone", "FIRING", START_MS))
    files = NewFiles(settings.paths.warehouse, 2)
    table = DeltaTable(table_path(settings.paths.warehouse, "alerts"))
    write(alert_row("b", "FIRING", START_MS))
    table.update_incremental()
    table.optimize.compact()
    table.delete("alert_id = 'gone'")
    write(alert_row("c", "FIRING", START_MS))
    files.read_to(lambda rows: seen.extend(row.notice.alert_id for row in rows))
    files.read_to(lambda rows: seen.extend(row.notice.alert_id for row in rows))
    assert sorted(seen) == ["b", "c"]


def test_a_log_that_no_longer_says_what_is_new_is_an_error_and_not_a_guess(settings: Settings, write: Write) -> None:
    for name in "abc":
        write(alert_row(name, "FIRING", START_MS))
    files = NewFiles(settings.paths.warehouse, 0)
    path = table_path(settings.paths.warehouse, "alerts")
    DeltaTable(path).create_checkpoint()
    (Path(path) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(AlertLogError, match="version 1 of the alerts table is no longer in its log"):
        files.read_to(lambda _: None)


def test_a_relay_whose_log_was_cleaned_away_begins_anew_from_the_tables(
    settings: Settings, hook: FakeServer, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is told twice: the delivery log says what was told."""
    write(alert_row("a", "FIRING", START_MS))
    relay = RelayThread(settings, session(is_stopped=None))
    is_held = threading.Event()
    read_commit = alert_feed.read_commit

    def held(table: Any, version: int) -> Any:
        is_held.wait(30)
        return read_commit(table, version)

    monkeypatch.setattr(alert_feed, "read_commit", held)
    relay.start()
    assert hook.wait_for(1)
    for name in "bc":
        write(alert_row(name, "FIRING", START_MS))
    path = table_path(settings.paths.warehouse, "alerts")
    DeltaTable(path).create_checkpoint()
    for version in range(3):
        (Path(path) / "_delta_log" / f"{version:020}.json").unlink()
    is_held.set()
    assert hook.wait_for(2)
    relay.stop()
    assert sorted(told(hook)) == ["a firing", "b firing", "c firing"]
