"""A bucket for the tests of this room that want one: the environment of this process names it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3_server import BUCKET, environment_of, s3_server


@pytest.fixture(scope="session")
def s3_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3") / "server.log") as address:
        yield address


@pytest.fixture
def bucket(s3_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address that nobody else writes under, and a cache of the test's own."""
    for name, value in environment_of(s3_address).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return f"s3://{BUCKET}/{tmp_path.name}"
