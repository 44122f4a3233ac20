"""CONTRIBUTING.md: the files that it names exist, and its recipe for a column works in a copy."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.offenders import assert_none

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"

PLAY = """
import os
from deltalake import DeltaTable
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from streaming.warehouse.tables import table_path
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.support.engine import Stream

rows = Stream().feed(Simulation(load_scenario("twins"), 1, 1_700_000_000_000).events(60_000))
append_rows(DeltalakeWriter("tables"), rows, "app", 0)
told = DeltaTable(table_path("tables", "assignments")).to_pyarrow_table()["share_of_queues"].to_pylist()
print(sorted({one for one in told if one is not None}), flush=True)
os._exit(0)  # before Arrow's threads are taken down
"""


def recipe(title: str) -> str:
    """One section of the page."""
    return PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_file_that_a_recipe_names_is_there() -> None:
    named = set(re.findall(r"`([\w/]+\.(?:py|toml|md))`", PAGE.read_text()))
    assert len(named) > 20
    assert_none(name for name in named if "NAME" not in name and not (ROOT / name).exists())


def insert(path: Path, before: str, line: str, within: str) -> None:
    """A line before the first `before` that comes after `within`."""
    text = path.read_text()
    place = text.index(before, text.index(within))
    path.write_text(f"{text[:place]}{line}{text[place:]}")


def test_a_column_is_added_by_the_steps_of_its_recipe(tmp_path: Path) -> None:
    for room in ("udfs", "schemas", "conf", "streaming", "tests"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__", "*.png", "*.java"))
    for page in ("README.md", "README.zh.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / page, tmp_path)
    column, value = re.findall(r"```text\n\s*(.*)\n", recipe("Add a column to a table"))

    def run(*arguments: str) -> str:
        environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
        ended = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr[-2_000:]
        assert ended.stdout, ended.stderr[-2_000:]
        return ended.stdout

    insert(tmp_path / "schemas" / "tables.py", ")\n\nMEMBERSHIPS", f"    {column}\n", "ASSIGNMENTS = _table(")
    insert(tmp_path / "streaming" / "queries" / "rows.py", "    }\n", f"        {value}\n", "def assignment_row")
    assert run("-m", "tests.manual") == "written: schemas/README.md\n"
    assert "`share_of_queues`" in (tmp_path / "schemas" / "README.md").read_text()
    shares = run("-c", PLAY)
    assert re.fullmatch(r"\[\d+(, \d+)*\]\n", shares), shares
