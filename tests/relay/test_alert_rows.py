"""The cursor in the log of the alerts table: the next version's batch is taken as it is, else the log is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.queries.written_batch import WrittenBatch
from streaming.relay import tables
from streaming.relay.notice import Transition
from streaming.relay.tables import AlertLogError, AlertRows
from streaming.warehouse.tables import table_path
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.relay.stage import START_MS, Row, alert_row

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


def names(transitions: list[Transition]) -> list[str]:
    return [transition.notice.alert_id for transition in transitions]


def take(new: AlertRows, batch: WrittenBatch) -> list[Transition]:
    """What a relay does with a batch."""
    found = new.take(batch.rows[ALERTS.name], batch.batch_id, batch.versions.get(ALERTS.name))
    return new.read() if found is None else found


def firing(name: str) -> Row:
    return alert_row(name, "FIRING", START_MS)


def table_of(settings: Settings) -> str:
    return table_path(settings.paths.warehouse, ALERTS.name)


def refuse_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the table is not read")

    for name in ("catch_up", "read_commit"):
        monkeypatch.setattr(tables, name, refuse)


def test_only_files_that_came_since_are_read_and_each_once(settings: Settings, write: Write) -> None:
    seen: list[Transition] = []
    write(firing("a"))
    new = AlertRows(settings.paths.warehouse, 1)
    seen += new.read()
    assert (names(seen), new.version) == ([], 1)
    write(firing("b"))
    write(firing("c"))
    seen += new.read()
    seen += new.read()
    assert (sorted(names(seen)), new.version) == (["b", "c"], 3)


def test_a_batch_that_is_the_next_version_is_taken_without_a_look_at_the_table(
    settings: Settings, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(firing("a"))
    seen: list[Transition] = []
    new = AlertRows(settings.paths.warehouse, 0)
    refuse_reads(monkeypatch)
    seen += take(new, first)
    seen += take(new, write(firing("b"), firing("c")))
    assert (names(seen), new.version) == (["a", "b", "c"], 2)


def test_what_is_handed_over_is_to_the_letter_what_the_table_has(settings: Settings, write: Write) -> None:
    """Out-of-range times too: a notice with another time would have another key and be notified twice."""
    batch = write(firing("a"), alert_row("b", "FIRING", 10**17), alert_row("c", "FIRING", -5, queues=["x:0", "x:1"]))
    handed = take(AlertRows(settings.paths.warehouse, 0), batch)
    read = AlertRows(settings.paths.warehouse, 0).read()
    assert handed == read
    assert len(read) == 3


def test_what_another_has_written_in_between_is_read_and_everything_once(settings: Settings, write: Write) -> None:
    seen: list[Transition] = []
    new = AlertRows(settings.paths.warehouse, 0)
    append_rows(DeltalakeWriter(settings.paths.warehouse), {"alerts": [firing("quality")]}, "another", 7)
    batches = [write(firing("a")), write(firing("b"))]
    for batch in batches:
        seen += take(new, batch)
    assert (names(seen), new.version) == (["quality", "a", "b"], 3)


def test_a_batch_that_runs_again_hands_over_what_the_table_has_of_it(settings: Settings, write: Write) -> None:
    """Under other rules it may have other rows, which the table skips."""
    seen: list[Transition] = []
    new = AlertRows(settings.paths.warehouse, 0)
    write(firing("a"), batch_id=50)
    again = write(firing("other"), batch_id=50)
    assert "alerts" not in again.versions
    seen += take(new, again)
    seen += take(new, again)
    assert names(seen) == ["a"]


def test_what_maintenance_writes_anew_is_not_new(settings: Settings, write: Write) -> None:
    """Compacted rows and rows that a deletion left are not handed over again; what was appended meanwhile is, once."""
    seen: list[Transition] = []
    write(firing("a"))
    write(firing("gone"))
    new = AlertRows(settings.paths.warehouse, 2)
    table = DeltaTable(table_of(settings))
    write(firing("b"))
    table.update_incremental()
    table.optimize.compact()
    table.delete("alert_id = 'gone'")
    last = write(firing("c"))
    seen += take(new, last)
    seen += new.read()
    assert sorted(names(seen)) == ["b", "c"]


def test_a_log_that_no_longer_says_what_is_new_is_an_error_and_not_a_guess(settings: Settings, write: Write) -> None:
    for name in "abc":
        write(firing(name))
    new = AlertRows(settings.paths.warehouse, 0)
    DeltaTable(table_of(settings)).create_checkpoint()
    (Path(table_of(settings)) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(AlertLogError, match="version 1 of the alerts table is no longer in its log"):
        new.read()


def test_a_new_file_that_was_compacted_and_deleted_is_an_error_and_not_tried_for_ever(
    settings: Settings, write: Write
) -> None:
    new = AlertRows(settings.paths.warehouse, 0)
    for name in "ab":
        write(firing(name))
    table = DeltaTable(table_of(settings))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    with pytest.raises(AlertLogError, match="is missing"):
        new.read()
