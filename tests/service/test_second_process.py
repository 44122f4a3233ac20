"""A second `balancewatch run` or `relay` ends at once with a sentence, the next after a kill -9 is not kept out; and
another release's checkpoint.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streaming.cli import app
from streaming.queries.checkpoint import STATE_FILE
from tests.relay.fakes import FakeServer
from tests.support.service_process import ServiceProcess
from tests.support.tiers import in_proof

SECONDS = 120.0
NOBODY = "127.0.0.1:1"
"""A Kafka that does not answer: `run` has its locks before it asks."""


def environment(folder: Path, checkpoints: str = "checkpoints") -> dict[str, str]:
    return os.environ | {
        "BALANCEWATCH_PATHS__WAREHOUSE": str(folder / "warehouse"),
        "BALANCEWATCH_PATHS__CHECKPOINTS": str(folder / checkpoints),
        "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS": NOBODY,
        "BALANCEWATCH_METRICS__ENABLED": "false",
    }


@contextmanager
def running(command: str, folder: Path) -> Iterator[ServiceProcess]:
    """The process, once it has noted that it is there."""
    process = ServiceProcess(folder / "log", environment(folder), command)
    process.start()
    try:
        process.wait_until(lambda: holder_of(folder, command) == process.pid)
        yield process
    finally:
        process.kill()


def run_out(variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    command = [sys.executable, "-m", "streaming.cli", *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False)


def holder_of(folder: Path, command: str) -> int | None:
    try:
        pid: int | None = json.loads((folder / "warehouse" / f"{command}.lock").read_text()).get("pid")
    except (OSError, ValueError):
        return None
    return pid


@pytest.mark.parametrize("command", ["relay", *in_proof(["run"])])
def test_a_second_one_ends_at_once_and_the_next_after_a_kill_starts(command: str, tmp_path: Path) -> None:
    with running(command, tmp_path) as first:
        second = run_out(environment(tmp_path, "others"), command)
        assert second.returncode == 1
        assert f"`balancewatch {command}` (pid {first.pid} on " in second.stderr
        assert "in use by" in second.stderr
        first.kill()
    with running(command, tmp_path) as third:
        assert holder_of(tmp_path, command) == third.pid


def test_a_checkpoint_of_another_release_ends_a_start_with_2_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "checkpoints" / "balance" / STATE_FILE
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"state_version": 1, "release": "0.0.1"}))
    monkeypatch.setattr("streaming.service.run_command.stop_on_signals", threading.Event)
    """No service manager tries again after 2."""
    ended = CliRunner().invoke(app, ["run"], env=environment(tmp_path))
    assert ended.exit_code == 2
    assert [*note.parent.iterdir()] == [note]
    assert "has state of version 1, written by balancewatch 0.0.1" in ended.stderr


def test_an_invalid_setting_is_notified_unless_the_run_that_it_is_meant_for_works(tmp_path: Path) -> None:
    """The relay's own settings are valid; nothing is sent where another process notifies, or with --available-now."""
    with FakeServer() as hook:
        config = tmp_path / "site.toml"
        config.write_text(
            f"[[oncall.receivers]]\nname = 'hook'\ntype = 'webhook'\nurl = '{hook.url}'\n"
            "[[oncall.routes]]\nname = 'all'\nreceivers = ['hook']\n"
            "[rules]\nsettle_ms = 0\n"
        )
        variables = environment(tmp_path) | {"BALANCEWATCH_CONFIG": str(config)}
        silent = [run_out(variables, "run", "--available-now")]
        with running("relay", tmp_path):
            silent.append(run_out(variables, "run"))
        assert hook.received == []
        ended = run_out(variables, "run")
        sent = [one for call in hook.received for one in call.fields["alerts"]]
    assert [one.returncode for one in (*silent, ended)] == [2, 2, 2]
    assert all("rules.settle_ms = 0" in one.stderr for one in (*silent, ended))
    assert [(one["labels"]["alertname"], one["status"]) for one in sent] == [("run_failing", "firing")]
    assert "rules.settle_ms = 0" in sent[0]["annotations"]["summary"]
