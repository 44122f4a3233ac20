"""The log takes everything, one line a notice."""

import io
import json
import sys
from collections.abc import Iterator

import pytest

from conf.settings import Log, Settings
from streaming.logs.logs import set_up_logs
from streaming.relay.receivers.log import LogReceiver
from tests.relay.notices import NOW_MS, notice


@pytest.fixture(autouse=True)
def _json_logs() -> Iterator[None]:
    set_up_logs(Log(level="INFO", format="json"))
    yield
    set_up_logs(Settings.load().log)


def test_each_notice_is_a_line_with_its_labels(capsys: pytest.CaptureFixture[str]) -> None:
    odd = notice(2, status="resolved", summary="a\nb", labels={"event": "x", "client_id": "\ud83d"})
    answer = LogReceiver().send([notice(1, static_labels={"team": "payments"}), odd], NOW_MS)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert answer.verdict == "DELIVERED"
    assert [(line["event"], line["level"]) for line in lines] == [
        ("alert firing", "warning"),
        ("alert resolved", "info"),
    ]
    assert (lines[0]["topic"], lines[0]["team"]) == ("orders-1", "payments")
    assert lines[1]["summary"] == "a b"


def test_a_closed_stderr_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stderr", gone)
    assert LogReceiver().send([notice()], NOW_MS).verdict == "DELIVERED"
