"""Kept events give the alerts that they gave when they came, whatever slices they are read in."""

from pathlib import Path
from typing import Any

import pytest

from streaming.replay import replay_command
from streaming.replay.stream import Enveloper, Stream
from tests.lab.field.stored import EVENTS_FILE, RULES_FILE, keep_events, replayed_rows
from tests.simulator.modelled import MINUTE, run
from tests.support.rules import default_rules
from udfs.alerts.rulebook import Rulebook


def _is_page_of_twins(row: dict[str, Any]) -> bool:
    return bool(row["kind"] == "duplicate_client_id" and row["state"] == "FIRING")


def test_kept_events_are_judged_again_by_the_session_s_own_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = Enveloper().messages(run("twins", seed=5, duration_ms=3 * MINUTE)[1])
    alerts = Stream(Rulebook(default_rules())).work_through(messages)["alerts"]
    half = len(messages) // 2
    assert keep_events(tmp_path, [messages[:half], messages[half:]]) == len(messages)
    monkeypatch.setattr(replay_command, "AT_MOST", 500)
    assert replayed_rows(tmp_path) == sorted(alerts, key=lambda row: row["changed_at"])
    assert any(_is_page_of_twins(row) for row in alerts)
    (tmp_path / RULES_FILE).write_text("[kinds.duplicate_client_id]\nis_enabled = false\n")
    assert not any(_is_page_of_twins(row) for row in replayed_rows(tmp_path))
    (tmp_path / EVENTS_FILE).unlink()
    with pytest.raises(FileNotFoundError):
        replayed_rows(tmp_path)
