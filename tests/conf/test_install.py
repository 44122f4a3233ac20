"""The wheel has every file that the product opens; commands of the base installation need no package of [run]."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conf.sources import DEFAULTS
from streaming.board.web.runbooks import PAGES
from streaming.cli import RUN_PACKAGES
from streaming.simulator.scenario import SCENARIOS
from streaming.spark.jars import IVY_XML, LOG4J, PINS
from streaming.spark.session import WORKER_PYTHON
from tests.history.warehouse_stage import alert, write
from tests.support.offenders import assert_none

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "streaming" / "board"

OPENED = (DEFAULTS, IVY_XML, PINS, LOG4J, WORKER_PYTHON, *PAGES.values())
FOLDERS = (SCENARIOS, BOARD / "assets", BOARD / "templates")

BUILD = "from setuptools.build_meta import build_wheel; build_wheel({!r})"


def build(folder: Path) -> Path:
    """Build the wheel of the files in git, and of settings with a secret, as a checkout may have them."""
    tracked = subprocess.run(
        ["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    sources = folder / "sources"
    for name in filter(None, tracked.split("\0")):
        if not name.startswith("tests/") and (ROOT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, sources / name)
    (sources / "conf" / "local.toml").write_text('[collector]\nacl_secret_key = "s3cret"\n')
    command = [sys.executable, "-c", BUILD.format(str(folder))]
    subprocess.run(command, cwd=sources, capture_output=True, timeout=300, check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_every_file_that_is_opened_and_no_settings_of_the_checkout(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    opened = {path.relative_to(ROOT) for path in (*OPENED, *(path for of in FOLDERS for path in of.iterdir()))}
    modules = {path.relative_to(ROOT) for room in ("conf", "schemas", "streaming", "udfs") for path in find(room)}
    assert_none(str(path) for path in opened | modules if str(path) not in names)
    assert "conf/local.toml" not in names
    assert_none(name for name in names if name.startswith("tests/"))


def find(room: str) -> Iterator[Path]:
    return (ROOT / room).rglob("*.py")


def test_the_extra_run_is_what_the_command_line_names() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {re.split("[=<>]", pin)[0].replace("-", "_") for pin in project["optional-dependencies"]["run"]}
    assert pinned - {"protobuf"} == RUN_PACKAGES  # protobuf is imported by Spark's workers only


WITHOUT = f"""
import sys

class Absent:
    @staticmethod
    def find_spec(name, *_):
        if name.partition(".")[0] in {(*RUN_PACKAGES, "google")!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent)
"""

IMPORTS = """
import json
from importlib import import_module
from streaming.cli import COMMANDS

lacking = {}
for name, place in COMMANDS.items():
    try:
        import_module(f"streaming.{place.module}")
    except ModuleNotFoundError as error:
        lacking[name] = error.name
for module in ("assistant.tools", "board.web.app", "history.sql_worker"):  # imported later
    import_module(f"streaming.{module}")
print(json.dumps(lacking))
"""

MAIN = "from streaming.cli import main; main()"


def call(*arguments: str, program: str = MAIN) -> subprocess.CompletedProcess[str]:
    """Run a program, by default a command, where the packages of [run] are not installed."""
    command = [sys.executable, "-c", WITHOUT + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_only_what_starts_a_jvm_or_simulates_needs_the_extra() -> None:
    done = call(program=IMPORTS)
    assert json.loads(done.stdout).keys() == {"collect", "run", "demo", "simulate", "kafka"}, done.stderr


@pytest.mark.parametrize("command", [["run"], ["demo"], ["collect"], ["quality", "check"]], ids=" ".join)
def test_a_command_that_needs_the_extra_says_what_to_install(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    done = call(*command)
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: this command needs the package \w+; install it with pip install 'balancewatch\[run]'\n", done.stderr
    )


def test_the_relay_and_questions_work_without_the_extra(tmp_path: Path) -> None:
    write(tmp_path, {"alerts": [alert("one", "FIRING", 5)]})
    for command in (["relay", "--dry-run"], ["alerts"], ["groups"]):
        done = call(*command, "--warehouse", str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert done.stdout


@pytest.mark.proof
def test_an_installed_wheel_plays_the_demo_and_keeps_its_packages_as_they_are(wheel: Path, tmp_path: Path) -> None:
    """In a fresh environment, by pip and the index."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    subprocess.run([home / "bin" / "pip", "install", f"{wheel}[run]"], timeout=1_800, check=True)
    work = tmp_path / "work"
    work.mkdir()
    ports = {"METRICS__PORT": "0", "METRICS__HEALTH_PORT": "0"}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {f"BALANCEWATCH_{name}": value for name, value in ports.items()}
    before = files_of(home)

    def balancewatch(*arguments: str) -> str:
        command = [home / "bin" / "balancewatch", *arguments]
        return subprocess.run(
            command, cwd=work, env=environment, stdout=subprocess.PIPE, text=True, timeout=600, check=True
        ).stdout

    balancewatch("demo", "--seconds", "120")
    alerts = balancewatch("alerts", "--history", "-o", "json", "--warehouse", ".demo/warehouse")
    assert "duplicate_client_id" in {alert["kind"] for alert in json.loads(alerts)}
    assert files_of(home) == before
    assert {path.name for path in work.iterdir()} == {".demo"}


def files_of(home: Path) -> set[str]:
    """Return the files of an environment but Python's own caches."""
    return {str(path) for path in home.rglob("*") if path.suffix != ".pyc" and path.name != "__pycache__"}
