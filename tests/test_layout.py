"""The rooms: who may import whom, what a leaf may touch, and how large a file may grow."""

import ast
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("streaming", "udfs", "schemas", "conf")
FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
LEAVES = [path for path in FILES if path.relative_to(ROOT).parts[0] != "streaming"]

OUTSIDE = {
    "time",
    "datetime",
    "random",
    "secrets",
    "logging",
    "os",
    "pathlib",
    "subprocess",
    "socket",
    "threading",
    "io",
}
"""What a rule may not ask: the clock, the dice, the machine. They are arguments."""

SPARK_FUNCTIONS = "udfs/sql.py"
"""The one file of udfs that may know Spark: it registers the rules as SQL functions."""

EXEMPTION = re.compile(
    r"#\s*(?:noqa(?::\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*)?|type:\s*ignore(?:\[[^\]]*\])?)(?P<rest>.*)"
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@cache
def imported_by(path: Path) -> set[str]:
    """Top-level names of everything a file imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)} imports relatively"
            names.add(str(node.module).partition(".")[0])
    return names


each_file = pytest.mark.parametrize("path", FILES, ids=name_of)


@pytest.mark.parametrize("path", LEAVES, ids=name_of)
def test_leaf_rooms_import_no_other_room(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0]
    assert not imported_by(path) & (set(ROOMS) - {own})


@pytest.mark.parametrize("path", [path for path in LEAVES if "udfs" in path.parts], ids=name_of)
def test_rules_import_the_standard_library_only_and_neither_clock_nor_dice_nor_machine(path: Path) -> None:
    imported = imported_by(path) - {"udfs"}
    if name_of(path) == SPARK_FUNCTIONS:
        imported -= {"pyspark"}
    assert imported <= sys.stdlib_module_names
    assert not imported & OUTSIDE


@each_file
def test_nobody_imports_the_tests(path: Path) -> None:
    assert "tests" not in imported_by(path)


@each_file
def test_every_exemption_carries_its_reason(path: Path) -> None:
    for number, line in enumerate(text_of(path).splitlines(), 1):
        found = EXEMPTION.search(line)
        if found:
            assert re.match(r"\s*#\s*\S+", found["rest"]), f"{name_of(path)}:{number} gives no reason: {line.strip()}"


@each_file
def test_no_file_is_over_300_lines(path: Path) -> None:
    assert len(text_of(path).splitlines()) <= 300


@each_file
def test_every_file_begins_with_what_it_is(path: Path) -> None:
    assert ast.get_docstring(tree_of(path))


@each_file
def test_no_module_is_a_drawer_for_everything(path: Path) -> None:
    assert path.stem not in {"utils", "util", "helpers", "common", "manager", "base", "misc"}


def test_no_room_is_named_like_an_installed_package() -> None:
    owners = packages_distributions()
    rooms = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    assert set(ROOMS) <= rooms
    assert {room: owners[room] for room in rooms if set(owners.get(room, [])) - {"balancewatch"}} == {}


def test_every_folder_of_tests_mirrors_a_room() -> None:
    streaming = {path.name for path in (ROOT / "streaming").iterdir() if path.is_dir()}
    folders = {path.name for path in (ROOT / "tests").iterdir() if (path / "__init__.py").is_file()}
    assert folders <= streaming | set(ROOMS) | {"bench", "chaos", "oracle", "score"}


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in FILES} | {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert all((folder / "__init__.py").is_file() for folder in folders)


def test_no_generated_file_is_in_git() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not re.findall(r"(?m)^.*(?:__pycache__|\.pyc|\.egg-info|\.parquet|spark-warehouse).*$", tracked)
