"""The examples of the pages work: commands are parsed, queries are answered, settings are valid."""

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from conf.settings import Settings
from streaming.cli import app
from streaming.store.store import History
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.support.markdown import Block, blocks_of, commands_of
from tests.support.modelled_warehouse import fill_warehouse
from tests.support.offenders import assert_none

ROOT = Path(__file__).parents[2]
PAGES = [path for path in sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("*/**/*.md")) if ".venv" not in path.parts]

ASKS = {
    *("alerts", "assignments", "canary", "check", "deliveries", "explain", "faults", "maintain", "members", "owner"),
    *("brokers", "clusters", "groups", "quality", "quarantine", "silence", "sql", "status"),
}
"""Commands that read the tables; those that are shown with --dry-run are among them."""

CHANGES = re.compile(r"maintain(?!.*--dry-run)|quality (check|docs)|quarantine (replay|repair)(?!.*--dry-run)")
"""Commands that write, or need Kafka: their own tests run them."""

INCIDENT = re.compile(r"\b[0-9a-f]{16}-\d{13}\b")


def commands() -> list[str]:
    """Return each `balancewatch` command line of the pages' console blocks once, up to a pipe."""
    shown = {
        re.split(r"\s(?:\||>|2>|&$)", command)[0].strip()
        for page in PAGES
        for block in blocks_of(page, "console")
        for command in commands_of(block)
    }
    return sorted(command for command in shown if command.startswith("balancewatch "))


def find_command(words: list[str]) -> tuple[Any, click.Context, list[str]]:
    """Return the command that the words begin with, its context, and the other words."""
    command: Any = get_command(app)
    context = click.Context(command, info_name="balancewatch")
    while hasattr(command, "commands") and words and words[0] in command.commands:
        name, *words = words
        command = command.commands[name]
        context = click.Context(command, parent=context, info_name=name)
    return command, context, words


def settings_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page, "toml")]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twins, then a slow broker, in the simulated cluster; and a quarantined pull without its cluster."""
    root = tmp_path_factory.mktemp("examples") / "warehouse"
    fill_warehouse(root)
    now_ms = time.time_ns() // 1_000_000
    good = json.loads((ROOT / "schemas" / "samples" / "good.pulls.json").read_text())
    raw = json.dumps({name: value for name, value in good.items() if name != "cluster"}).encode()
    place = {"topic": "rocketmq.pulls", "partition": 0, "offset": 1742, "ingest_time": now_ms - 60_000}
    refused = {**place, "raw": raw, "reasons": ["missing_field: cluster"]}
    append_rows(DeltalakeWriter(root), {"quarantine": [refused]}, "refused", 0)
    return root


def test_a_command_that_a_page_shows_is_understood(subtests: pytest.Subtests) -> None:
    """Its options are there and its values have the right types; nothing is run."""
    assert commands()
    for command in commands():
        with subtests.test(command):
            group, context, words = find_command(shlex.split(command)[1:])
            assert not (hasattr(group, "commands") and words and not words[0].startswith("-") and not group.params)
            group.make_context(group.name, words, parent=context.parent)


def test_a_command_within_the_text_of_a_runbook_is_understood(subtests: pytest.Subtests) -> None:
    """Required arguments may be missing there; the given options and arguments must exist."""
    shown = [
        (page.name, " ".join(line.split()))
        for page in PAGES
        if page.parent.name == "runbooks"
        for line in re.findall(r"`balancewatch ([^`]+)`", page.read_text())
    ]
    assert len(shown) > 20
    for page, line in shown:
        with subtests.test(page, line=line):
            command, _, words = find_command(shlex.split(line))
            assert command.name != "balancewatch"
            options = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= options
            arguments = [one for one in command.params if one.param_type_name == "argument"]
            flags = {option for one in command.params if getattr(one, "is_flag", False) for option in one.opts}
            pairs = zip(words, ["", *words], strict=False)
            free = [word for word, before in pairs if word[:1] != "-" and (before in flags or before[:1] != "-")]
            assert len(free) <= len(arguments)


def test_a_question_that_a_page_shows_is_answered(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Asked of modelled tables; an incident's id stands for one that is there."""
    monkeypatch.setenv("BALANCEWATCH_PATHS__WAREHOUSE", str(warehouse))
    monkeypatch.setenv("BALANCEWATCH_PATHS__CHECKPOINTS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    incident = History(warehouse).rows("SELECT incident_id FROM incidents ORDER BY started_at LIMIT 1")[0]
    asked = [line for line in commands() if line.split()[1] in ASKS and not CHANGES.match(line.split(" ", 1)[1])]
    assert asked
    for command in asked:
        with subtests.test(command):
            words = shlex.split(INCIDENT.sub(incident["incident_id"], command))[1:]
            result = CliRunner().invoke(app, words)
            # `canary` ends with 1 without a canary, and `status` with old data: the simulated tables are such.
            assert result.exit_code == (1 if words[0] in ("canary", "status") else 0), result.output
            assert isinstance(result.exception, SystemExit | None)
            assert result.output.strip()


def test_settings_that_a_page_shows_are_taken(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A block that begins with no section or key of the settings is a rules file."""
    file = tmp_path / "shown.toml"
    for block in settings_blocks():
        file.write_text(block.text)
        first = next(line for line in block.text.splitlines() if line and not line.startswith("#"))
        section = re.match(r"\[*(\w+)", first)
        with subtests.test(str(block)), pytest.MonkeyPatch.context() as environment:
            for variable in re.findall(r'_env = "(\w+)"', block.text):
                environment.setenv(variable, "a-secret-of-some-length")
            if section and section[1] in Settings.model_fields:
                environment.setenv("BALANCEWATCH_CONFIG", str(file))
                Settings.load()
            else:
                Settings.load(rules={"file": str(file)})


def test_every_make_target_that_a_page_shows_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = {
        command.split()[1]
        for page in PAGES
        for block in blocks_of(page, "console")
        for command in commands_of(block)
        if command.startswith("make ")
    }
    assert shown
    assert shown <= targets


def test_every_file_and_part_of_a_page_that_a_page_links_to_is_there() -> None:
    assert_none(
        f"{page.name}: {target}#{part}"
        for page in PAGES
        for target, part in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text())
        if not (path := page.parent / target if target else page).exists() or (part and part not in heads_of(path))
    )


def heads_of(page: Path) -> set[str]:
    """The page's headings as GitHub links to them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
