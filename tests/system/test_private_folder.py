"""Who may read what we write: folders that we make are our own user's alone, those that are there stay as they are."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.queries.running import start_query
from streaming.spark.session import _output_to
from streaming.system.private_folder import make_private
from tests.support.row_writer import create_tables


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_is_missing_is_made_private_and_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    make_private(tmp_path / "there" / "a" / "b")
    assert [mode(tmp_path / one) for one in ("there", "there/a", "there/a/b")] == [0o755, 0o700, 0o700]
    make_private(tmp_path / "there")
    assert mode(tmp_path / "there") == 0o755


def test_the_tables_are_not_for_everybody(tmp_path: Path) -> None:
    create_tables(tmp_path / "data" / "warehouse")
    assert (mode(tmp_path / "data"), mode(tmp_path / "data" / "warehouse")) == (0o700, 0o700)
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    create_tables(shared)
    assert mode(shared) == 0o755


def test_nor_are_the_checkpoints(tmp_path: Path) -> None:
    settings = Settings.load(paths={"checkpoints": tmp_path / "checkpoints"})
    start_query("q", MagicMock(), settings, MagicMock())
    assert mode(tmp_path / "checkpoints") == 0o700
    elsewhere = Settings.load(paths={"checkpoints": tmp_path / "far"}, spark={"master": "spark://host:7077"})
    start_query("q", MagicMock(), elsewhere, MagicMock())
    (ordinary := tmp_path / "ordinary").mkdir()
    assert mode(tmp_path / "far") == mode(ordinary), "executors may be other users"


def test_nor_is_the_embedded_kafkas_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise InterruptedError

    monkeypatch.setattr("streaming.kafka_io.embedded_kafka.java", stop)
    with pytest.raises(InterruptedError):
        EmbeddedKafka(tmp_path, tmp_path / ".demo" / "kafka")
    assert (mode(tmp_path / ".demo"), mode(tmp_path / ".demo" / "kafka")) == (0o700, 0o700)


def test_nor_what_the_jvm_says(tmp_path: Path) -> None:
    with _output_to(tmp_path / "logs" / "spark.log"):
        pass
    assert (mode(tmp_path / "logs"), mode(tmp_path / "logs" / "spark.log")) == (0o700, 0o600)
