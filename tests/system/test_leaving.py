"""What stands on stderr when a process ends: its sentence, and nothing of the libraries that are taken down."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.history.warehouse_stage import alert, write

HOLDER = """
import sys, threading
from streaming.store.store import History
history, ready = None, threading.Event()

def hold():
    kept = History(sys.argv[-1])
    ready.set()
    threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
ready.wait()
from streaming import cli
"""
"""A thread that nobody waits for holds DuckDB to the end, as those of `run` do."""


def test_a_command_that_fails_leaves_its_sentence_alone(tmp_path: Path) -> None:
    write(tmp_path, {"alerts": [alert("one", "FIRING", 5)]})
    command = [sys.executable, "-c", HOLDER + "cli.main()", "explain", "nothing", "--warehouse", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "error: INCIDENT 'nothing' is not in the alerts table; known: one-1\n"


def test_run_that_fails_says_why_and_ends(tmp_path: Path) -> None:
    """Another process has the port of its metrics."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"PATHS__WAREHOUSE": tmp_path / "tables", "PATHS__CHECKPOINTS": tmp_path / "checkpoints"}
        given = {**places, "METRICS__PORT": taken.getsockname()[1], "KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
        environment = os.environ | {f"BALANCEWATCH_{name}": str(value) for name, value in given.items()}
        command = [sys.executable, "-m", "streaming.cli", "run"]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: metrics.port")
    assert len(ended.stderr.splitlines()) == 1


def test_an_answer_that_cannot_be_written_is_a_failure_in_one_line(tmp_path: Path) -> None:
    write(tmp_path, {"alerts": [alert("one", "FIRING", 5)]})
    command = [sys.executable, "-m", "streaming.cli", "owner", "--help"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "nanobind" not in ended.stderr
