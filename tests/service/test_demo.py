"""`balancewatch demo` before its parts start: refusals end it at once and delete nothing."""

import errno
import os
import socket
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from streaming.cli import app
from streaming.kafka_io.embedded_kafka import EmbeddedKafkaError
from streaming.service import demo
from streaming.service.demo import MADE, MARK, empty_folder, hold_folder
from streaming.service.service import ServiceError
from streaming.spark.jars import JarsError
from streaming.warehouse.occupancy import OccupiedError, Part, occupying

TOO_LATE = "Kafka was started"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of an earlier demo, which the next demo deletes when it starts; Kafka never starts here."""
    for name in [name for name in os.environ if name.upper().startswith("BALANCEWATCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(demo, "EmbeddedKafka", Mock(side_effect=EmbeddedKafkaError(TOO_LATE)))
    file = tmp_path / "demo" / "kafka" / "kept"
    with hold_folder(tmp_path / "demo"):
        file.parent.mkdir()
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


def test_an_unavailable_port_is_reported_before_anything_is_started(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    monkeypatch.setattr(socket, "create_server", Mock(side_effect=taken))
    assert is_refused(run(kept), kept, 1, "board.host = '127.0.0.1': cannot listen on any port: Address already")


def test_without_the_board_its_settings_do_not_matter(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def unmarked(root: Path) -> Path:
    """Write a folder of production: Kafka's data, tables and a precious file."""
    for name in ("kafka/log/data", "warehouse/alerts/part", "precious/data.txt"):
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    return root


def files_of(folder: Path) -> set[str]:
    return {str(one.relative_to(folder)) for one in folder.rglob("*")}


@pytest.mark.parametrize(
    ("name", "mark", "sentence"),
    [
        *((name, None, f"is not empty and has no {MARK}") for name in ("folder", "link")),
        *(("folder", words, "is not empty and has no") for words in ("", "another program's", "\xff")),
        ("folder/precious/data.txt", None, "Not a directory; choose another folder"),
    ],
)
def test_a_folder_that_no_demo_made_is_refused_and_untouched_as_is_a_file(
    kept: Path, tmp_path: Path, name: str, mark: str | None, sentence: str
) -> None:
    """A mark of other words is none."""
    folder = unmarked(tmp_path / "folder")
    (tmp_path / "link").symlink_to(folder)
    if mark is not None:
        (folder / MARK).write_text(mark, encoding="latin-1")
    before = files_of(folder)
    result = CliRunner().invoke(app, ["demo", "--data-dir", str(tmp_path / name), "--no-board", "--seconds", "1"])
    assert is_refused(result, kept, 2, sentence)
    assert files_of(folder) == before


def test_of_a_demos_folder_only_what_it_made_is_deleted(kept: Path) -> None:
    folder, mine = kept.parents[1], kept.parents[1] / "notes.txt"
    mine.touch()
    assert TOO_LATE in run(kept, "--no-board").stderr
    assert mine.exists()
    assert {name.partition("/")[0] for name in files_of(folder)} <= {MARK, *MADE, "demo.lock", "notes.txt"}
    assert not kept.exists()


def test_the_target_of_a_link_is_not_deleted(kept: Path, tmp_path: Path) -> None:
    precious = unmarked(tmp_path / "folder")
    (kept.parents[1] / "warehouse").symlink_to(precious)
    run(kept, "--no-board")
    assert not (kept.parents[1] / "warehouse").is_symlink()
    assert (precious / "precious" / "data.txt").exists()


@pytest.mark.parametrize("lacking", ["java", "jars"])
def test_java_and_the_jars_are_looked_for_before_anything_is_deleted(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    if lacking == "java":
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        monkeypatch.setenv("BALANCEWATCH_PATHS__JARS", str(tmp_path / "no-jars"))
        refuse = Mock(side_effect=JarsError("Ivy could not resolve the jars"))
        monkeypatch.setattr("streaming.spark.jars._run_ivy", refuse)
    result = run(kept, "--no-board")
    assert is_refused(result, kept, 1, "no java on the PATH" if lacking == "java" else "Ivy could not resolve")


def test_a_second_demo_names_the_first_before_it_checks_anything(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the first has ended, the folder is free."""
    monkeypatch.setattr(demo, "java", lambda: pytest.fail("it looked for Java"))
    folder = kept.parents[1]
    with hold_folder(folder):
        assert is_refused(
            run(kept), kept, 1, f"--data-dir = {str(folder)!r}: in use by `balancewatch demo` (pid {os.getpid()} on"
        )
    monkeypatch.undo()
    with hold_folder(folder):
        empty_folder(folder)
    assert not kept.exists()


@pytest.mark.parametrize(("part", "name"), [("run", "warehouse"), ("run", "checkpoints"), ("relay", "warehouse")])
def test_tables_of_a_demo_that_are_in_use_are_not_deleted(kept: Path, part: Part, name: str) -> None:
    with occupying(part, part, {f"paths.{name}": kept.parents[1] / name}):
        assert is_refused(run(kept), kept, 1, f"`balancewatch {part}` (pid {os.getpid()} on")


def test_a_running_demo_holds_its_tables_exclusively(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def start(*_: Any) -> None:
        for name in ("warehouse", "checkpoints"):
            with pytest.raises(OccupiedError) as refused, occupying("run", "run", {name: kept.parents[1] / name}):
                pass
            said.append(str(refused.value))
        raise EmbeddedKafkaError(TOO_LATE)

    monkeypatch.setattr(demo, "EmbeddedKafka", start)
    assert TOO_LATE in run(kept, "--no-board").stderr
    assert all("`balancewatch demo`" in one for one in said)
    assert len(said) == 2


def test_the_past_that_the_demo_plays_is_not_late(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Mock(side_effect=ServiceError(TOO_LATE))
    monkeypatch.setattr(demo, "EmbeddedKafka", lambda *_: Mock(bootstrap_servers="127.0.0.1:1"))
    monkeypatch.setattr(demo, "Service", service)
    assert TOO_LATE in run(kept, "--no-board").stderr
    assert service.call_args.kwargs["past_ms"] == demo.PAST_SECONDS * 1000
