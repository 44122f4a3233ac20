"""`balancewatch board` as a process: it prints where it is, answers and ends; what cannot work is a sentence."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streaming.cli import app
from tests.board.tables import alert, write


@pytest.mark.real
def test_it_prints_its_url_answers_there_and_ends_with_0(tmp_path: Path) -> None:
    warehouse = write(tmp_path / "w", {"alerts": [alert("one")]})
    command = [sys.executable, "-m", "streaming.cli", "board", "--port", "0", "--warehouse", str(warehouse)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
            assert url
            with urllib.request.urlopen(url[0], timeout=30) as answer:  # noqa: S310  # of the loopback
                assert answer.status == 200
                assert "Content-Security-Policy" in answer.headers
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert complaints == ""


def test_a_taken_port_or_a_host_without_a_token_is_a_sentence_with_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["board", "--port", str(port), "--warehouse", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: board.host = '127.0.0.1', board.port = {port}: cannot listen: ")
    assert len(result.stderr.splitlines()) == 1
    monkeypatch.delenv("BALANCEWATCH_BOARD_TOKEN", raising=False)
    result = CliRunner().invoke(app, ["board", "--host", "10.255.255.1"])
    assert result.exit_code == 2
    assert "board.host = '10.255.255.1' opens the board to others, which requires a token" in result.stderr
    assert "set it" in result.stderr
