"""`check` and `alerts rules` asked in a site of its own: settings in a file, no variable of the machine's."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streaming.cli import app
from streaming.warehouse.writer import append_rows
from tests.history.warehouse_stage import alert
from tests.support.row_writer import RowWriter


def move_to_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str) -> None:
    """Let these settings, TOML, be the only ones; the tables are in `tmp_path`."""
    for name in [name for name in os.environ if name.upper().startswith("BALANCEWATCH_")]:
        monkeypatch.delenv(name)
    (tmp_path / "site.toml").write_text(settings)
    monkeypatch.setenv("BALANCEWATCH_CONFIG", str(tmp_path / "site.toml"))
    monkeypatch.setenv("BALANCEWATCH_PATHS__WAREHOUSE", str(tmp_path / "warehouse"))


def write(tmp_path: Path, *rows: dict[str, Any]) -> None:
    """Write alerts, FIRING ones of a frozen client unless a row says otherwise."""
    common = alert("a", "FIRING", 1, cluster="prod", consumer_group=None, topic=None, queues=[])
    append_rows(RowWriter(tmp_path / "warehouse"), {"alerts": [common | row for row in rows]}, "app", 0)


def call(*arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments])


def check(*arguments: str) -> Any:
    return call("check", *arguments)


def judge(*arguments: str) -> Any:
    return call("alerts", "rules", *arguments)


def answer(command: Callable[..., Any], *arguments: str) -> dict[str, Any]:
    result = command(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found
