"""The files of conf/deploy as values: units, the Dockerfile's lines, the manifest's objects."""

import re
import shutil
import sys
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "conf" / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DOCKERFILE = DEPLOY / "Dockerfile"
MANIFEST = DEPLOY / "kubernetes.yml"
PROGRAM = "/opt/balancewatch/bin/balancewatch"


class _Lists(dict[str, Any]):
    """A key that stands twice in a unit has both values."""

    def __setitem__(self, key: str, value: Any) -> None:
        if isinstance(value, list) and key in self:
            value = [*self[key], *value]
        super().__setitem__(key, value)


def unit(path: Path) -> RawConfigParser:
    """Keys as they are written; one that stands twice has a value of several lines."""
    parser = RawConfigParser(dict_type=_Lists, strict=False, allow_no_value=True, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # the way that the standard library documents
    parser.read(path)
    return parser


def command_of(path: Path) -> list[str]:
    """What a unit starts, its program left out."""
    program, *words = unit(path)["Service"]["ExecStart"].split()
    assert program == PROGRAM
    return words


def environment_of(text: str) -> dict[str, str]:
    """NAME=value lines, those that are commented out too."""
    found = re.findall(r"(?m)^#? ?([A-Z][A-Z0-9_]+)=(.*)$", text)
    return {name: value.strip("'\"") for name, value in found}


def dockerfile_environment() -> dict[str, str]:
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    lines = [line.removeprefix("ENV ") for line in text.splitlines() if line.startswith("ENV ")]
    return {name: value.strip('"') for line in lines for name, value in re.findall(r"(\w+)=(\S+)", line)}


def objects() -> dict[str, Any]:
    """The manifest's objects, by kind and name."""
    found = [one for one in YAML(typ="safe").load_all(MANIFEST.read_text()) if one]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def pods() -> dict[str, Any]:
    """The pod's spec of each workload of the manifest."""
    specs = {}
    for name, one in objects().items():
        spec = one.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            specs[name] = spec["template"]["spec"]
    return specs


def containers() -> Iterator[tuple[str, Any]]:
    for name, pod in pods().items():
        for one in pod["containers"]:
            yield f"{name}/{one['name']}", one


def tool(name: str) -> str:
    """Where a linter of the project's own environment is. Fails with what to do."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    return found or pytest.fail(f"no {name}: make setup")
