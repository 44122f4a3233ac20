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

from tests.support.offenders import assert_none

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
"""What a rule may not ask: the clock, the rng, the machine. They are arguments."""

SPARK_FUNCTIONS = "udfs/sql.py"
"""The one file of udfs that may know Spark: it registers the rules as SQL functions."""

EXEMPTION = re.compile(
    r"#\s*(?:noqa(?::\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*)?|type:\s*ignore(?:\[[^\]]*\])?)(?P<rest>.*)"
)


STREAMING = (
    "text", "system", "logs", "warehouse", "store", "terminal", "spark", "kafka_io", "collector", "simulator",
    "queries", "self_monitoring", "relay", "metrics", "history", "replay", "whatif", "check", "quality",
    "maintenance", "board", "assistant", "service", "cli",
)  # fmt: skip
"""The rooms of streaming/: a module imports of those before its own, and of its own."""

APART = ({"collector", "simulator"}, {"replay", "whatif", "check"})
"""Rooms that stand side by side: none imports another."""

UDFS = ("rocketmq", "alerts", "brokers", "producers", "groups", "whatif", "sql")
"""The rooms of udfs/, likewise."""

BOARD = ("words", "url", "known", "chart", "page", "pages", "web", "board_command")
"""The rooms of streaming/board/, likewise."""

ORDERS = {"streaming": STREAMING, "udfs": UDFS, "streaming.board": BOARD}

WRITERS = {"streaming/text/output.py", "streaming/text/console.py", "streaming/logs/logs.py"}
"""Who writes to stdout and stderr, in text that no terminal obeys; everybody else goes by them."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import, inside functions too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


@cache
def imported_by(path: Path) -> set[str]:
    """Top-level names of everything a file imports."""
    return {name.partition(".")[0] for _, name in imports_of(path)}


def test_leaf_rooms_import_no_other_room() -> None:
    """But the settings, which take the names of kinds, labels and tables from the rules and the contracts."""
    known = {"conf": {"conf", "udfs", "schemas"}, "udfs": {"udfs"}, "schemas": {"schemas"}}
    assert_none(
        f"{name_of(path)} imports {', '.join(sorted(others))}"
        for path in LEAVES
        if (others := imported_by(path) & (set(ROOMS) - known[path.relative_to(ROOT).parts[0]]))
    )


def place_of(name: str, above: str) -> int | None:
    """Where a module's room stands among those of the room `above` it; None for a module of another one."""
    room = name.removeprefix(f"{above}.").partition(".")[0] if name.startswith(f"{above}.") else ""
    return ORDERS[above].index(room) if room in ORDERS[above] else None


def is_apart(one: str, other: str) -> bool:
    rooms = {one.split(".")[1], other.split(".")[1]}
    return len(rooms) == 2 and any(rooms <= apart for apart in APART)


def test_a_module_imports_only_of_rooms_before_its_own() -> None:
    modules = {path: name_of(path).removesuffix(".py").replace("/", ".") for path in FILES}
    assert_none(
        f"{name_of(path)}:{line} imports {name}"
        for path, module in modules.items()
        for above in ORDERS
        if (own := place_of(module, above)) is not None
        for line, name in imports_of(path)
        if (place := place_of(name, above)) is not None
        if place > own or is_apart(module, name)
    )


def test_every_room_stands_in_the_order() -> None:
    for above, rooms in ORDERS.items():
        folder = ROOT / above.replace(".", "/")
        found = {path.relative_to(folder).parts[0].removesuffix(".py") for path in FILES if folder in path.parents}
        assert found - {"__init__"} == set(rooms)


def test_no_two_modules_import_each_other() -> None:
    names = {name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in FILES}
    arrows = {
        name: {
            target
            for _, imported in imports_of(path)
            if (target := imported if imported in names else imported.rpartition(".")[0]) in names and target != name
        }
        for name, path in names.items()
    }
    done: set[str] = set()
    circles: list[str] = []

    def walk(name: str, way: tuple[str, ...]) -> None:
        if name in way:
            circles.append(" > ".join((*way[way.index(name) :], name)))
        elif name not in done:
            for target in sorted(arrows[name]):
                walk(target, (*way, name))
            done.add(name)

    for name in sorted(names):
        walk(name, ())
    assert_none(circles)


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
        f"{name_of(path)}:{line} prints past streaming/text/output.py and streaming/text/console.py"
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


def test_no_file_is_over_600_lines() -> None:
    lengths = {name_of(path): len(text_of(path).splitlines()) for path in FILES}
    assert_none(f"{name} has {lines}" for name, lines in lengths.items() if lines > 600)


BUDGET = {
    "streaming/assistant": 450, "streaming/board": 4_150, "streaming/check": 920, "streaming/collector": 3_190,
    "streaming/history": 2_290, "streaming/kafka_io": 460, "streaming/logs": 330, "streaming/maintenance": 910,
    "streaming/metrics": 960, "streaming/quality": 1_630, "streaming/queries": 4_340, "streaming/relay": 3_670,
    "streaming/replay": 520, "streaming/self_monitoring": 450, "streaming/service": 1_440,
    "streaming/simulator": 3_500, "streaming/spark": 560, "streaming/store": 960, "streaming/system": 310,
    "streaming/terminal": 620, "streaming/text": 630, "streaming/warehouse": 1_680, "streaming/whatif": 420,
    "udfs/alerts": 1_800, "udfs/brokers": 2_190, "udfs/groups": 3_890, "udfs/producers": 1_280,
    "udfs/rocketmq": 2_010, "udfs/whatif": 440, "schemas": 1_740, "conf": 1_020,
}  # fmt: skip
"""The most lines of Python in each room. A change that makes a room smaller lowers its figure."""

MOST_LINES, MOST_LINES_OF_TESTS = 49_100, 60_200

MOST_FILES = 292
"""Of the product, likewise."""


def test_no_room_is_over_its_budget() -> None:
    lines = {room: sum(len(text_of(path).splitlines()) for path in (ROOT / room).rglob("*.py")) for room in BUDGET}
    assert_none(
        f"{room} has {lines[room]} lines, {BUDGET[room]} at most" for room in BUDGET if lines[room] > BUDGET[room]
    )
    assert sum(len(text_of(path).splitlines()) for path in FILES) <= MOST_LINES
    assert sum(len(text_of(path).splitlines()) for path in (ROOT / "tests").rglob("*.py")) <= MOST_LINES_OF_TESTS
    assert len(FILES) <= MOST_FILES


def test_every_room_has_a_budget() -> None:
    rooms = {
        path.parent.relative_to(ROOT).parts[:2] for path in FILES if path.parent.name != path.relative_to(ROOT).parts[0]
    }
    assert {"/".join(parts) for parts in rooms if parts[0] in ("streaming", "udfs")} <= BUDGET.keys()


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
    assert folders <= streaming | set(ROOMS) | {"lab", "manual", "support"}


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in FILES} | {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert all((folder / "__init__.py").is_file() for folder in folders)


def test_no_generated_file_is_in_git() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not re.findall(r"(?m)^.*(?:__pycache__|\.pyc|\.egg-info|\.parquet|spark-warehouse).*$", tracked)
