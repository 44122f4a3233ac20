"""`balancewatch demo` before anything is started: what the board refuses ends it at once, and costs nothing."""

import errno
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streaming import demo
from streaming.cli import app
from streaming.ingest.embedded_kafka import EmbeddedKafkaError

TOO_LATE = "Kafka was started"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of an earlier demo in its folder, which a demo that starts would take away; Kafka never starts here."""

    def start(*_: Any) -> None:
        raise EmbeddedKafkaError(TOO_LATE)

    for name in [name for name in os.environ if name.upper().startswith("BALANCEWATCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(demo, "EmbeddedKafka", start)
    file = tmp_path / "demo" / "kafka" / "kept"
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def run(kept: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["demo", "--data-dir", str(kept.parents[1]), *arguments])


def is_refused(result: Result, kept: Path, code: int, sentence: str) -> bool:
    assert (result.exit_code, len(result.stderr.splitlines())) == (code, 1), result.output
    assert sentence in result.stderr
    assert TOO_LATE not in result.stderr
    return kept.exists()


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("ALLOWED_HOSTS", '["board.example"]', "board.allowed_hosts = ['board.example'] opens the board to others"),
        ("TRUSTED_PROXY", "127.0.0.1", "board.trusted_proxy = '127.0.0.1' opens the board to others"),
    ],
)
def test_a_board_that_would_be_open_to_others_is_refused_before_anything_is_started(
    kept: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(f"BALANCEWATCH_BOARD__{variable}", value)
    assert is_refused(run(kept), kept, 2, sentence)


def test_a_port_that_cannot_be_had_is_told_before_anything_is_started(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: Any, **__: Any) -> None:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))

    monkeypatch.setattr(socket, "create_server", taken)
    assert is_refused(run(kept), kept, 1, "board.host = '127.0.0.1': no port of it can be listened at: Address already")


def test_what_the_board_needs_and_is_not_installed_is_told_before_anything_is_started(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "streaming.board.server", None)
    assert is_refused(run(kept), kept, 1, "the board needs streaming.board.server, which cannot be imported")


def test_without_the_board_its_settings_are_nobodys_business(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALANCEWATCH_BOARD__ALLOWED_HOSTS", '["board.example"]')
    result = run(kept, "--no-board")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].endswith(TOO_LATE)
    assert not kept.exists()


def test_the_board_listens_before_kafka_is_started_and_ends_with_the_demo(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[bool] = []

    def start(*_: Any) -> None:
        served.append(any(thread.name == "board" for thread in threading.enumerate()))
        raise EmbeddedKafkaError(TOO_LATE)

    monkeypatch.setattr(demo, "EmbeddedKafka", start)
    result = run(kept)
    assert served == [True], result.output
    assert TOO_LATE in result.stderr
    assert not any(thread.name == "board" for thread in threading.enumerate())
