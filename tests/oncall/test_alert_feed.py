"""How a relay comes by new alerts: from the query beside it where that is all there is to know, else from the log."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.oncall import alert_feed
from streaming.oncall.alert_feed import AlertFeed, AlertLogError, NewRows
from streaming.oncall.transition import Transition
from streaming.queries.written_batch import WrittenBatch
from streaming.warehouse.tables import table_path
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.oncall.stage import START_MS, Row, alert_row
from tests.oncall.waiting import until

Write = Callable[..., WrittenBatch]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(paths={"warehouse": tmp_path / "warehouse"}, oncall={"poll_seconds": 0.05})


@pytest.fixture
def write(settings: Settings) -> Write:
    """Write a batch of the query, and give it as its listeners get it."""
    writer = DeltalakeWriter(settings.paths.warehouse)
    batches = iter(range(100))

    def write(*rows: Row, batch_id: int | None = None) -> WrittenBatch:
        number = next(batches) if batch_id is None else batch_id
        versions = append_rows(writer, {"alerts": list(rows)}, "app", number)
        return WrittenBatch("balance", number, {"alerts": list(rows)}, versions)

    return write


class Seen:
    """The alerts that were handed over, in their order."""

    def __init__(self) -> None:
        self.transitions: list[Transition] = []

    def __call__(self, transitions: list[Transition]) -> None:
        self.transitions += transitions

    @property
    def names(self) -> list[str]:
        return [transition.notice.alert_id for transition in self.transitions]


def firing(name: str) -> Row:
    return alert_row(name, "FIRING", START_MS)


def table_of(settings: Settings) -> str:
    return table_path(settings.paths.warehouse, ALERTS.name)


def refuse_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the table is not read")

    for name in ("catch_up", "read_commit"):
        monkeypatch.setattr(alert_feed, name, refuse)


def test_only_files_that_came_since_are_read_and_each_once(settings: Settings, write: Write) -> None:
    seen = Seen()
    write(firing("a"))
    new = NewRows(settings.paths.warehouse, 1)
    new.read_to(seen)
    assert (seen.names, new.version) == ([], 1)
    write(firing("b"))
    write(firing("c"))
    new.read_to(seen)
    new.read_to(seen)
    assert (sorted(seen.names), new.version) == (["b", "c"], 3)


def test_a_batch_that_is_the_next_version_is_taken_without_a_look_at_the_table(
    settings: Settings, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, first = Seen(), write(firing("a"))
    new = NewRows(settings.paths.warehouse, 0)
    refuse_reads(monkeypatch)
    new.take(first, seen)
    new.take(write(firing("b"), firing("c")), seen)
    assert (seen.names, new.version) == (["a", "b", "c"], 2)


def test_what_is_handed_over_is_to_the_letter_what_the_table_has(settings: Settings, write: Write) -> None:
    """A time beyond all times too: a notice by another time would be another notice, and told again."""
    handed, read = Seen(), Seen()
    batch = write(firing("a"), alert_row("b", "FIRING", 10**17), alert_row("c", "FIRING", -5, queues=["x:0", "x:1"]))
    NewRows(settings.paths.warehouse, 0).take(batch, handed)
    NewRows(settings.paths.warehouse, 0).read_to(read)
    assert handed.transitions == read.transitions
    assert len(read.transitions) == 3


def test_what_another_has_written_in_between_is_read_and_everything_once(settings: Settings, write: Write) -> None:
    seen = Seen()
    new = NewRows(settings.paths.warehouse, 0)
    append_rows(DeltalakeWriter(settings.paths.warehouse), {"alerts": [firing("quality")]}, "another", 7)
    batches = [write(firing("a")), write(firing("b"))]
    for batch in batches:
        new.take(batch, seen)
    assert (seen.names, new.version) == (["quality", "a", "b"], 3)


def test_a_batch_that_runs_again_hands_over_what_the_table_has_of_it(settings: Settings, write: Write) -> None:
    """Under other rules it may have other rows, which the table skips: those are nobody's."""
    seen = Seen()
    new = NewRows(settings.paths.warehouse, 0)
    write(firing("a"), batch_id=50)
    again = write(firing("other"), batch_id=50)
    assert "alerts" not in again.versions
    new.take(again, seen)
    new.take(again, seen)
    assert seen.names == ["a"]


def test_what_maintenance_writes_anew_is_not_new(settings: Settings, write: Write) -> None:
    """Compacted rows and rows that a deletion left are not handed over again; what was appended meanwhile is, once."""
    seen = Seen()
    write(firing("a"))
    write(firing("gone"))
    new = NewRows(settings.paths.warehouse, 2)
    table = DeltaTable(table_of(settings))
    write(firing("b"))
    table.update_incremental()
    table.optimize.compact()
    table.delete("alert_id = 'gone'")
    last = write(firing("c"))
    new.take(last, seen)
    new.read_to(seen)
    assert sorted(seen.names) == ["b", "c"]


def test_a_log_that_no_longer_says_what_is_new_is_an_error_and_not_a_guess(settings: Settings, write: Write) -> None:
    for name in "abc":
        write(firing(name))
    new = NewRows(settings.paths.warehouse, 0)
    DeltaTable(table_of(settings)).create_checkpoint()
    (Path(table_of(settings)) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(AlertLogError, match="version 1 of the alerts table is no longer in its log"):
        new.read_to(lambda _: None)


def test_a_new_file_that_was_compacted_and_deleted_is_an_error_and_not_tried_for_ever(
    settings: Settings, write: Write
) -> None:
    new = NewRows(settings.paths.warehouse, 0)
    for name in "ab":
        write(firing(name))
    table = DeltaTable(table_of(settings))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    with pytest.raises(AlertLogError, match="is missing"):
        new.read_to(lambda _: None)


@pytest.fixture
def feed(settings: Settings, write: Write) -> Callable[..., AlertFeed]:
    return lambda seen, **keys: AlertFeed(settings, 0, seen, **keys)


def test_what_was_committed_before_anybody_could_hand_it_over_is_read_and_once(
    feed: Callable[..., AlertFeed], write: Write
) -> None:
    seen, before = Seen(), write(firing("before"))
    made = feed(seen)
    made.on_batch(before)
    made.on_batch(write(firing("early")))
    made.start()
    made.on_batch(write(firing("late")))
    until(lambda: len(seen.names) == 3)
    made.stop()
    assert seen.names == ["before", "early", "late"]


def test_beside_a_query_it_looks_only_when_notified_to(feed: Callable[..., AlertFeed], write: Write) -> None:
    seen, reads = Seen(), threading.Semaphore(0)
    made = feed(seen, on_read=reads.release)
    made.start()
    assert reads.acquire(timeout=30)
    write(firing("quality"))
    assert not reads.acquire(timeout=0.5)
    made.look()
    until(lambda: seen.names == ["quality"])
    made.on_batch(WrittenBatch("balance", 4, {"assignments": [{}]}))
    write(firing("last"))
    made.drain()
    made.stop()
    assert seen.names == ["quality", "last"]


def test_what_could_not_be_read_is_tried_again_by_itself(
    feed: Callable[..., AlertFeed], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, failures = Seen(), iter([OSError("no"), OSError("no")])
    catch_up = alert_feed.catch_up

    def failing(table: DeltaTable) -> None:
        if (failure := next(failures, None)) is not None:
            raise failure
        catch_up(table)

    monkeypatch.setattr(alert_feed, "catch_up", failing)
    write(firing("a"))
    made = feed(seen)
    made.start()
    until(lambda: seen.names == ["a"])
    made.stop()
