"""The lock files: every package by version and SHA-256, none of them another than pyproject.toml names."""

import fnmatch
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.offenders import assert_none

ROOT = Path(__file__).parent.parent.parent
RUN, TESTS, BUILD = "requirements.lock", "tests/requirements.lock", "conf/deploy/build.lock"

_ENTRY = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^ ;\\]+)(?P<rest>(?:.*\\\n)*.*)$", re.MULTILINE)


def entries(lock: str) -> dict[str, str]:
    """Markers and hashes by name==version."""
    text = (ROOT / lock).read_text()
    return {f"{found['name']}=={found['version']}": found["rest"] for found in _ENTRY.finditer(text)}


def pins(lock: str) -> list[str]:
    """What pyproject.toml names for a lock file."""
    content: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named: list[str] = content["project"]["dependencies"] + content["project"]["optional-dependencies"]["run"]
    tests: list[str] = content["project"]["optional-dependencies"]["dev"]
    build: list[str] = content["dependency-groups"]["build"]
    return {RUN: named, TESTS: [*named, *tests], BUILD: build}[lock]


@pytest.mark.parametrize("lock", [RUN, TESTS, BUILD])
def test_what_pyproject_pins_is_locked_at_the_same_version(lock: str) -> None:
    locked = entries(lock)
    assert_none(f"{one} is not locked: `make lock`" for one in pins(lock) if not fnmatch.filter(locked, _normal(one)))


def _normal(pin: str) -> str:
    name, _, version = re.sub(r"\[.*\]", "", pin).partition("==")  # of an extra its own packages are locked
    return f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}"


@pytest.mark.parametrize(("lock", "least"), [(RUN, 60), (TESTS, 100), (BUILD, 1)])
def test_every_package_has_a_hash(lock: str, least: int) -> None:
    locked = entries(lock)
    assert len(locked) >= least
    assert_none(name for name, rest in locked.items() if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", rest))


def test_the_tests_have_the_packages_of_the_product_and_the_product_none_of_theirs() -> None:
    assert entries(RUN).items() < entries(TESTS).items()
    runs = {name.partition("==")[0] for name in entries(RUN)}
    only_tests = {_normal(one).partition("==")[0] for one in pins(TESTS)[len(pins(RUN)) :]}
    assert_none(runs & only_tests - {"ruamel-yaml"})
