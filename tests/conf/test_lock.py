"""requirements.lock: every package by version and SHA-256, and none of them another than pyproject.toml names."""

import fnmatch
import re
import tomllib
from pathlib import Path

from tests.support.offenders import assert_none

ROOT = Path(__file__).parent.parent.parent

_ENTRY = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^ ;\\]+)(?P<rest>(?:.*\\\n)*.*)$", re.MULTILINE)


def entries() -> list[tuple[str, str, str]]:
    text = (ROOT / "requirements.lock").read_text()
    return [(found["name"], found["version"], found["rest"]) for found in _ENTRY.finditer(text)]


def test_what_pyproject_pins_is_locked_at_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    locked = {f"{name}=={version}" for name, version, _ in entries()}
    assert_none(f"{one} is not locked: `make lock`" for one in wanted if not fnmatch.filter(locked, _normal(one)))


def _normal(pin: str) -> str:
    name, _, version = re.sub(r"\[.*\]", "", pin).partition("==")  # of an extra its own packages are locked
    return f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}"


def test_every_package_has_a_hash() -> None:
    assert len(entries()) > 80
    assert_none(name for name, _, rest in entries() if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", rest))
