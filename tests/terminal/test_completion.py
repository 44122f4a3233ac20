"""Completion as shells ask for it, in a process of its own."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from streaming.terminal import completion
from tests.history.warehouse_stage import alert, assignment, write

START = (
    "import sys; sys.argv[0] = 'balancewatch'; import streaming.terminal.completion as completion; "
    "completion.SECONDS = 60; from streaming.cli import main; main()"
)
"""A busy machine is no failure."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    hostile = [assignment(0, "OK", 0, consumer_group=name) for name in ("$(id)", "bil;ls", "billing", "audit")]
    alerts = [
        alert("c87a8d88", "FIRING", 5),
        alert("d1", "RESOLVED", 5),
        alert("c9", "PENDING", 5, kind="broker_isolated", consumer_group="$(id)", broker_name="broker-a,MQ%broker-b"),
    ]
    return write(tmp_path_factory.mktemp("warehouse"), {"alerts": alerts, "assignments": hostile})


def asked(shell: str, line: str, warehouse: Path | str) -> str:
    """What the shell gets, as its script asks for it at the end of the line."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_BALANCEWATCH_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "BALANCEWATCH_PATHS__WAREHOUSE": str(warehouse),
    }
    command = [sys.executable, "-c", START]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("balancewatch al", "alerts"),
        ("balancewatch alerts ru", "rules"),
        ("balancewatch alerts --fol", "--follow"),
        ("balancewatch alerts --severity ", "critical error warning info"),
        ("balancewatch alerts --state FIRING,R", "FIRING,RECOVERING FIRING,RESOLVED"),
        ("balancewatch alerts --kind starved_queue,duplicate", "starved_queue,duplicate_client_id"),
        ("balancewatch alerts -o w", "wide"),
        ("balancewatch silence e", "end"),
        ("balancewatch groups --group ", "audit billing"),
        ("balancewatch groups --cluster ", "c"),
        ("balancewatch ack ", "c87a8d88-1 c9-1"),
        ("balancewatch explain c8", "c87a8d88-1"),
        ("balancewatch alerts rules duplicate_c", "duplicate_client_id"),
    ],
)
def test_bash_completes_commands_options_values_names_and_open_incidents(
    line: str, found: str, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that a shell could run are left out."""
    assert asked("bash", line, warehouse).split() == found.split()


def test_zsh_and_fish_show_what_a_completion_is(warehouse: Path) -> None:
    assert asked("fish", "balancewatch ack ", warehouse).splitlines() == [
        "c87a8d88-1\tFIRING starved_queue billing",
        "c9-1\tPENDING broker_isolated ??id? broker-a,MQ%broker-b",
    ]
    assert '"c87a8d88-1":"FIRING starved_queue billing"' in asked("zsh", "balancewatch ack ", warehouse)
    assert '"sta' in asked("zsh", "balancewatch sta", warehouse)


def test_an_error_completes_nothing(tmp_path: Path) -> None:
    (tmp_path / "alerts").write_text("no table")
    assert asked("bash", "balancewatch groups --group ", tmp_path).strip() == ""
    assert asked("bash", "balancewatch ack ", "s3://no bucket/x").strip() == ""


def test_tables_that_do_not_answer_in_time_complete_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "SECONDS", 0.1)
    hangs = threading.Event()
    monkeypatch.setattr(completion, "_open", lambda *_: hangs.wait(60))
    assert completion.complete_subject(("starved_queue",))(None, "") == ["starved_queue"]  # type: ignore[arg-type]  # unused
    hangs.set()


def test_a_real_bash_completes(warehouse: Path, tmp_path: Path) -> None:
    """By the script that --install-completion writes."""
    command = tmp_path / "balancewatch"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{START}" "$@"\n')
    command.chmod(0o755)
    script = """
    eval "$(_BALANCEWATCH_COMPLETE=source_bash balancewatch)"
    complete -p balancewatch
    COMP_WORDS=(balancewatch groups --group bil) COMP_CWORD=3
    _balancewatch_completion balancewatch
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "BALANCEWATCH_PATHS__WAREHOUSE": str(warehouse)}
    ended = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.splitlines() == ["complete -o default -F _balancewatch_completion balancewatch", "billing"]
