"""A bucket that cannot be worked with stops a start within seconds, in a sentence that names what to set."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streaming.cli import app
from streaming.warehouse.table_store import StoreUnreachableError, reach
from tests.support.s3_server import environment_of

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("s3")]

MOST_SECONDS = 60.0
SECRET = environment_of("")["AWS_SECRET_ACCESS_KEY"]


@pytest.fixture
def mute() -> Iterator[str]:
    """A server that takes calls and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def said_of(location: str) -> str:
    began = time.monotonic()
    with pytest.raises(StoreUnreachableError) as error:
        reach(location)
    assert time.monotonic() - began < MOST_SECONDS
    assert "\n" not in str(error.value)
    assert SECRET not in str(error.value)
    return str(error.value)


def test_a_bucket_that_is_there_and_a_folder_are_fine(bucket: str) -> None:
    reach(bucket)
    reach("no/such/folder")


def test_a_bucket_that_is_not_there_is_named(bucket: str, s3_address: str) -> None:
    said = said_of("s3://another-bucket/x")
    assert said.startswith("paths.warehouse = 's3://another-bucket/x': bucket another-bucket does not exist at ")
    assert s3_address in said
    assert "AWS_ENDPOINT_URL" in said


@pytest.mark.parametrize("missing", [["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"], ["AWS_SECRET_ACCESS_KEY"]])
def test_credentials_that_are_missing_are_named(
    bucket: str, monkeypatch: pytest.MonkeyPatch, missing: list[str]
) -> None:
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    for name in missing:
        monkeypatch.delenv(name)
    said = said_of(bucket)
    assert "no credentials found; set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY" in said


def test_an_endpoint_that_is_away_says_nothing_or_is_none_is_named(
    bucket: str, monkeypatch: pytest.MonkeyPatch, mute: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:not-to-be-shown@127.0.0.1:1")
    assert "http://127.0.0.1:1 does not answer; check AWS_ENDPOINT_URL" in said_of(bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL", mute)
    assert f"{mute} does not answer" in said_of(bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "storage.example")
    assert "AWS_ENDPOINT_URL must begin with http:// or https://" in said_of(bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL", mute)
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert "set AWS_ALLOW_HTTP=true" in said_of(bucket)


@pytest.mark.parametrize(
    "arguments",
    [["run", "--bootstrap-servers", "127.0.0.1:1"], ["relay", "--once"], ["sql", "SELECT 1"]],
    ids=lambda arguments: arguments[0],
)
def test_a_command_ends_with_1_and_that_sentence(
    bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str]
) -> None:
    monkeypatch.setenv("BALANCEWATCH_PATHS__CHECKPOINTS", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    ended = CliRunner().invoke(app, [*arguments, "--warehouse", bucket])
    assert ended.exit_code == 1
    assert f"error: paths.warehouse = {bucket!r}: http://127.0.0.1:1 does not answer" in ended.stderr
    assert SECRET not in ended.output
