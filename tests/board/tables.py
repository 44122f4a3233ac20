"""Rows written by hand, incidents a minute apart by default; boards, pages and clients over them at NOW_MS."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from conf.settings import Settings
from streaming.board.chart import Chart
from streaming.board.page import Page, View
from streaming.board.web.access import AccessControl
from streaming.board.web.app import Board, make_app
from streaming.store.store import History
from streaming.warehouse.writer import append_rows
from tests.board.components import Element, read_html
from tests.history import warehouse_stage
from tests.support.row_writer import RowWriter

NOW_MS = 1_795_258_800_000
"""2026-11-21T11:00:00Z."""

MINUTE = 60_000


def alert(incident_id: str, state: str = "FIRING", ago_ms: int = 5 * MINUTE, **columns: Any) -> dict[str, Any]:
    """A row of an incident that took this state `ago_ms` before NOW_MS."""
    changed_at = NOW_MS - ago_ms
    row = {
        "incident_id": incident_id,
        "reason": "hold_over",
        "cluster": "prod",
        "summary": f"Summary of {incident_id}.",
        "advice": f"Advice of {incident_id}.",
        "evidence": "{}",
        "started_at": changed_at - MINUTE,
        "fired_at": None if state in ("PENDING", "UNKNOWN") else changed_at,
        "changed_at": changed_at,
    }
    return warehouse_stage.alert(incident_id, state, 0) | row | columns


def assignment(queue_id: int, verdict: str, **columns: Any) -> dict[str, Any]:
    row = {"cluster": "prod", "planned_owner": "c@1", "observed_owners": ["c@1"]}
    row |= {"since": NOW_MS - MINUTE, "changed_at": NOW_MS - MINUTE}
    return warehouse_stage.assignment(queue_id, verdict, 0) | row | columns


def backlog(queue_id: int, messages: int | None, ago_ms: int = 2 * MINUTE, **columns: Any) -> dict[str, Any]:
    return warehouse_stage.backlog(queue_id, messages, 0, cluster="prod", changed_at=NOW_MS - ago_ms) | columns


def member(client_id: str, client_addr: str, **columns: Any) -> dict[str, Any]:
    row = {"cluster": "prod", "client_addr": client_addr, "client_version": "V4_9_8"}
    row |= {"last_heartbeat": NOW_MS, "changed_at": NOW_MS - 9 * MINUTE}
    return warehouse_stage.member(client_id, "JOINED", 0) | row | columns


def health(ago_ms: int, avoiding: int, producers: int = 3, **columns: Any) -> dict[str, Any]:
    row = {
        "cluster": "prod",
        "broker_name": "broker-a",
        "unavailable_producers": avoiding,
        "producers": producers,
        "unavailable_until": NOW_MS - ago_ms + 30_000 if avoiding else None,
        "changed_at": NOW_MS - ago_ms,
    }
    return row | columns


OF_NO_GROUP = {"consumer_group": None, "topic": None}


def silence(ago_ms: int, state: str = "UNKNOWN", **columns: Any) -> dict[str, Any]:
    """The alert that cluster prod has been without data since `ago_ms`."""
    about = {**OF_NO_GROUP, "kind": "cluster_no_data", "started_at": NOW_MS - ago_ms}
    return alert("silence", state, ago_ms - MINUTE, **about, **columns)


def write(warehouse: Path, rows: Mapping[str, list[dict[str, Any]]], batch_id: int = 0) -> Path:
    """Append the rows to their tables."""
    append_rows(RowWriter(warehouse), dict(rows), "test", batch_id)
    return warehouse


def shown(page: Page, warehouse: Path, /, now_ms: int = NOW_MS, **asked: str) -> Element:
    """A page's body over these tables."""
    return read_html(page.body(view_of(warehouse, now_ms, **asked)))


def minutes(chart: Chart, name: str) -> list[int]:
    """Lengths of the bars of this name."""
    period_ms = chart.axis.until_ms - chart.axis.from_ms
    return [round(bar.width * period_ms / 100 / MINUTE) for bar in chart.bars if bar.name == name]


def board_of(
    warehouse: Path,
    now_ms: int = NOW_MS,
    *,
    can_write: bool = False,
    mutes: Sequence[Mapping[str, Any]] = (),
    language: str = "en",
) -> Board:
    paths, write = {"warehouse": warehouse}, {"write": can_write}
    return Board(Settings.load(paths=paths, board=write, mutes=list(mutes), language=language), lambda: now_ms)


def client_of(warehouse: Path, access: AccessControl | None = None, **board: Any) -> TestClient:
    """A client of a board; `access` defaults to one without a token."""
    app = make_app(board_of(warehouse, **board), access or AccessControl(frozenset({"127.0.0.1"})))
    return TestClient(app, "http://127.0.0.1:8050", follow_redirects=False)


def view_of(warehouse: Path, /, now_ms: int = NOW_MS, **asked: str) -> View:
    """The input of a page's `read` over these tables."""
    return View(history_of(warehouse), asked, now_ms)


def history_of(warehouse: Path) -> History:
    """The tables as they are now; opened once for several questions, as the board does it."""
    history = _opened(warehouse)
    history.refresh()
    return history


@lru_cache(maxsize=2)
def _opened(warehouse: Path) -> History:
    return History(warehouse)
