"""Commits that a power cut emptied or truncated: set aside if they are the newest, reported otherwise."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from deltalake import DeltaTable, Transaction

from schemas.tables import ALERTS
from streaming.warehouse.appender import Appender
from streaming.warehouse.delta_log import find_damage, set_aside_damaged
from streaming.warehouse.tables import open_table
from streaming.warehouse.writer import DeltalakeWriter
from tests.maintenance.rows import NOW_MS, row_of, write
from tests.support.power_cuts import empty, fill_with_nul, lose, truncate
from tests.warehouse.tables import make_table, numbers, read


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three commits of a row each, 1, 2 and 3."""
    path = make_table(tmp_path / "table")
    appender = Appender(path)
    for number in (1, 2, 3):
        appender.append(numbers(number), Transaction("app", number))
    return Path(path)


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def data_of(table: Path, version: int) -> Path:
    lines = map(json.loads, commit(table, version).read_text().splitlines())
    (path,) = [line["add"]["path"] for line in lines if "add" in line]
    return table / path


Cut = Callable[[Path], None]
Place = Callable[[Path, int], Path]
BY_COMMIT: list[tuple[Cut, Place]] = [(cut, commit) for cut in (empty, fill_with_nul, truncate)]


@pytest.mark.parametrize(("cut", "of"), [*BY_COMMIT, (empty, data_of), (lose, data_of)])
def test_a_damaged_newest_commit_is_set_aside_and_its_batch_is_written_again(table: Path, cut: Cut, of: Place) -> None:
    cut(of(table, 3))
    set_aside_damaged(table)
    assert read(str(table)) == [1, 2]
    (damage,) = find_damage(table)
    assert (damage.file, damage.is_set_aside) == (f"{3:020}.json", True)
    appender = Appender(str(table))
    assert appender.append(numbers(2), Transaction("app", 2)) is None
    assert appender.append(numbers(3), Transaction("app", 3)) == 3
    assert read(str(table)) == [1, 2, 3]


def test_all_damaged_commits_at_the_end_are_set_aside(table: Path) -> None:
    empty(commit(table, 3))
    empty(data_of(table, 2))
    set_aside_damaged(table)
    assert read(str(table)) == [1]
    assert [damage.is_set_aside for damage in find_damage(table)] == [True, True]


@pytest.mark.parametrize("of", [commit, data_of])
def test_a_damaged_commit_below_an_intact_one_stays_and_is_found(table: Path, of: Place) -> None:
    empty(of(table, 2))
    set_aside_damaged(table)
    assert commit(table, 2).exists()
    (damage,) = find_damage(table)
    assert (damage.file, damage.is_set_aside) == (f"{2:020}.json", False)


def test_compacted_and_vacuumed_files_are_no_damage(table: Path) -> None:
    handle = DeltaTable(str(table))
    handle.optimize.compact()
    handle.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    set_aside_damaged(table)
    assert find_damage(table) == []
    assert read(str(table)) == [1, 2, 3]


def test_an_intact_table_and_one_that_is_not_there_stay_as_they_are(table: Path) -> None:
    before = sorted(table.rglob("*"))
    set_aside_damaged(table)
    set_aside_damaged(table / "nowhere")
    assert sorted(table.rglob("*")) == before
    assert find_damage(table) == []


def test_openers_at_once_set_aside_only_damaged_commits(table: Path) -> None:
    """Each opens and appends: a commit that another has just written is never set aside."""
    empty(commit(table, 3))

    def open_and_append(number: int) -> None:
        set_aside_damaged(table)
        Appender(str(table)).append(numbers(number), Transaction(f"app-{number}", 1))

    threads = [Thread(target=open_and_append, args=(number,)) for number in range(10, 18)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(str(table)) == [1, 2, *range(10, 18)]
    assert len(find_damage(table)) == 1


def test_every_opening_of_a_table_sets_damaged_commits_aside(tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS, incident_id=f"i{number}")])
    truncate(commit(tmp_path / "alerts", 2))
    assert open_table(tmp_path, ALERTS).version() == 1
    truncate(commit(tmp_path / "alerts", 1))
    DeltalakeWriter(tmp_path)
    assert DeltaTable(str(tmp_path / "alerts")).version() == 0
