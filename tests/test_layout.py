"""The rooms: who may import whom, what a leaf may touch, and how large a file may grow."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.offenders import assert_none

pytestmark = pytest.mark.xdist_group("layout")  # one process reads the files

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


WRITERS = {"streaming/output.py", "streaming/console.py", "streaming/logs.py"}
"""Who writes to stdout and stderr, in text that no terminal obeys; everybody else goes by them."""


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
            names.add(str(node.module).partition(".")[0])
    return names


def test_leaf_rooms_import_no_other_room() -> None:
    assert_none(
        f"{name_of(path)} imports {', '.join(sorted(others))}"
        for path in LEAVES
        if (others := imported_by(path) & (set(ROOMS) - {path.relative_to(ROOT).parts[0]}))
    )


def wrongly_imported_by(rule: Path) -> set[str]:
    """What is neither of the standard library nor of its room, and what is OUTSIDE; one file may know Spark."""
    allowed = {"udfs", "pyspark"} if name_of(rule) == SPARK_FUNCTIONS else {"udfs"}
    imported = imported_by(rule) - allowed
    return (imported - sys.stdlib_module_names) | (imported & OUTSIDE)


def test_rules_import_the_standard_library_only_and_neither_clock_nor_dice_nor_machine() -> None:
    rules = [path for path in LEAVES if "udfs" in path.parts]
    assert rules
    assert_none(
        f"{name_of(rule)} imports {', '.join(sorted(wrong))}" for rule in rules if (wrong := wrongly_imported_by(rule))
    )


def test_nobody_imports_the_tests() -> None:
    assert_none(name_of(path) for path in FILES if "tests" in imported_by(path))


def test_nobody_imports_relatively() -> None:
    assert_none(
        f"{name_of(path)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.level
    )


def printed_by(path: Path) -> Iterator[int]:
    """Lines that print past WRITERS: print, echo, a stream of `sys`, or what Rich prints to a console of its own."""
    asked = {"isatty", "flush"}
    tree = tree_of(path)
    harmless = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in asked}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="print" | "Console" | "pprint")):
                yield node.lineno
            case ast.Call(func=ast.Name(id="Progress" | "track" | "Live"), keywords=keywords):
                if "console" not in {one.arg for one in keywords}:
                    yield node.lineno
            case ast.Attribute(value=ast.Name(id="typer" | "click"), attr="echo" | "secho" | "echo_via_pager"):
                yield node.lineno
            case ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr" | "__stdout__" | "__stderr__"):
                if id(node) not in harmless:
                    yield node.lineno
            case ast.ImportFrom(module="sys" | "rich", names=names):
                if {one.name for one in names} & {"stdout", "stderr", "print", "get_console"}:
                    yield node.lineno


def test_what_is_printed_goes_by_what_makes_it_visible() -> None:
    assert_none(
        f"{name_of(path)}:{line} prints past streaming/output.py and streaming/console.py"
        for path in FILES
        if name_of(path) not in WRITERS
        for line in printed_by(path)
    )


def test_every_exemption_carries_its_reason() -> None:
    assert_none(
        f"{name_of(path)}:{number} gives no reason: {line.strip()}"
        for path in FILES
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if (found := EXEMPTION.search(line)) and not re.match(r"\s*#\s*\S+", found["rest"])
    )


def test_no_file_is_over_300_lines() -> None:
    lengths = {name_of(path): len(text_of(path).splitlines()) for path in FILES}
    assert_none(f"{name} has {lines}" for name, lines in lengths.items() if lines > 300)


def test_every_file_begins_with_what_it_is() -> None:
    assert_none(name_of(path) for path in FILES if not ast.get_docstring(tree_of(path)))


def test_no_module_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "common", "manager", "base", "misc"}
    assert_none(name_of(path) for path in FILES if path.stem in drawers)


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
