"""How far the tables are behind the events, by their commits."""

import time
from pathlib import Path

import pytest

from schemas.tables import TABLES
from streaming.board.page import View
from streaming.board.pages import overview
from streaming.board.pages.overview import PAGE, read_lags
from streaming.store.store import History
from streaming.warehouse.delta_log import read_commit
from streaming.warehouse.tables import open_table, table_path
from tests.board.components import by_id, read_html, text_of
from tests.board.tables import alert, assignment, write

MINUTE = 60_000


@pytest.fixture
def now_ms() -> int:
    return time.time_ns() // 1_000_000


def written_at(warehouse: Path, table: str, version: int) -> int:
    """Of a commit, by its log."""
    commit = read_commit(table_path(warehouse, table), version)
    assert commit is not None
    return commit.at_ms


def test_the_lag_is_from_the_newest_event_of_a_commit_to_the_commit(tmp_path: Path, now_ms: int) -> None:
    """A later commit of earlier events counts; maintenance adds nothing, and the log keeps statistics."""
    write(tmp_path, {"assignments": [assignment(0, "OK", changed_at=now_ms)]})
    late = [assignment(number, "OK", changed_at=now_ms - (9 - number) * MINUTE) for number in (1, 2)]
    write(tmp_path, {"assignments": late}, 1)
    history = History(tmp_path)
    at_ms = written_at(tmp_path, "assignments", history.versions["assignments"])
    assert read_lags(history, at_ms, MINUTE) == {"assignments": at_ms - now_ms + 7 * MINUTE}
    for batch in (1, 2):
        write(tmp_path / "1", {"alerts": [alert("one", changed_at=now_ms - 5 * MINUTE)]}, batch)
    before = read_lags(History(tmp_path / "1"), now_ms + MINUTE, MINUTE)
    table = open_table(tmp_path / "1", TABLES["alerts"])
    table.optimize.compact()
    assert table.version() > History(tmp_path / "1").versions["assignments"]
    assert read_lags(History(tmp_path / "1"), now_ms + MINUTE, MINUTE) == before != {}
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert read_lags(History(tmp_path / "1"), now_ms + MINUTE, MINUTE) == before, (
        "by the log, which keeps the statistics"
    )


@pytest.mark.parametrize("board_behind_ms", [0, 3 * MINUTE])
def test_clocks_that_do_not_fit_describe_no_lag(tmp_path: Path, now_ms: int, board_behind_ms: int) -> None:
    """Events of tomorrow, or a commit after now by the board's clock."""
    ahead_ms = 0 if board_behind_ms else 3 * MINUTE
    write(tmp_path, {"alerts": [alert("one", changed_at=now_ms + ahead_ms)]})
    assert read_lags(History(tmp_path), now_ms - board_behind_ms, MINUTE) == {}


def test_only_tables_count_that_were_written_lately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"assignments": [assignment(0, "OK")], "alerts": [alert("one")]})
    written = {"assignments": (990_000, 981_000), "alerts": (1_000_000, 996_000), "memberships": (0, None)}
    monkeypatch.setattr(overview, "_read_written", lambda _, table, __: written[table.name])
    history = History(tmp_path)
    assert read_lags(history, 1_000_000, 120_000) == {"assignments": 9_000, "alerts": 4_000}
    assert read_lags(history, 1_000_000, 9_000) == {"alerts": 4_000}


def test_the_overview_says_how_far_the_tables_are_behind_the_events(tmp_path: Path, now_ms: int) -> None:
    write(tmp_path, {"assignments": [assignment(0, "OK", changed_at=now_ms - 7 * MINUTE)]})
    at_ms = written_at(tmp_path, "assignments", 1)
    page = read_html(PAGE.body(View(History(tmp_path), {}, at_ms)))
    assert text_of(by_id(page, "lag")) == "Delay from event to table row: at most 7 min ."
    assert text_of(by_id(page, "age-assignments")) == "assignments 7 min ago , delay 7 min"
    old = read_html(PAGE.body(View(History(tmp_path), {}, at_ms + 10 * MINUTE, 120_000, at_ms)))
    assert "at most 7 min (before the data stopped)" in text_of(by_id(old, "lag"))
    none = read_html(PAGE.body(View(History(tmp_path), {}, at_ms - 60 * MINUTE)))
    assert text_of(by_id(none, "lag")) == "Delay from event to table row: unknown."
