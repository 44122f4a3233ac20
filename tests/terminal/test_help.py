"""The help of every command: what can be copied from it, its groups and its exit codes."""

import io
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from streaming.cli import COMMANDS, EXIT_CODES, GROUPS, app
from tests.support.offenders import assert_none

ROOT = Path(__file__).parents[2]


def leaves(command: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if name:
        yield name
    for below in getattr(command, "commands", ()):
        yield from leaves(command.commands[below], (*name, below))


NAMES = sorted(leaves(get_command(app)))


def help_of(*name: str) -> str:
    """As a terminal of COLUMNS gets it; Typer's own CliRunner forces a width."""
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit) as end:
        app([*name, "--help"])
    assert end.value.code == 0
    return printed.getvalue()


def parted(text: str) -> tuple[list[str], list[str]]:
    """The examples of a help text, and its other lines."""
    head, _, rest = text.partition("  Examples:\n")
    examples, _, tail = rest.partition("\n\n")
    return [line.removeprefix("    ") for line in examples.splitlines()], [*head.splitlines(), *tail.splitlines()]


@pytest.mark.parametrize("width", [60, 80])
def test_an_example_is_one_line_that_can_be_copied(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    texts = [path.read_text().replace('"""', ' """ ') for path in (ROOT / "streaming").rglob("*.py")]
    source = " ".join(word for text in texts for word in text.split())
    printed = [line for name in NAMES for line in parted(help_of(*name))[0]]
    assert len(printed) > 50
    assert_none(line for line in printed if f"Example: {line} " not in source)
    assert_none(line for line in printed if not set(shlex.split(line)) & set(COMMANDS))


def test_prose_and_options_fit_the_terminal_and_no_word_with_hyphens_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = [line for name in NAMES for line in parted(help_of(*name))[1]]
    assert_none(line for line in lines if line.endswith("-") or len(line) > 60)


def test_help_has_five_groups_exit_codes_and_the_room_of_a_wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = help_of().splitlines()
    titles = [line.removesuffix(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options", "Inspect", "Act", "Run", "Try", "Data"]
    assert list(GROUPS) == ["inspect", "act", "run", "try", "data"]
    monkeypatch.setenv("COLUMNS", "200")
    assert EXIT_CODES in help_of()
    monkeypatch.setenv("COLUMNS", "200")
    assert 100 < max(map(len, help_of().splitlines())) <= 120


def test_only_the_first_command_offers_a_completion_script(tmp_path: Path) -> None:
    """Subcommands would offer one of their own name, which breaks each TAB."""
    assert "--install-completion" in help_of()
    assert_none(" ".join(name) for name in NAMES if "completion" in help_of(*name))
    for group in ("silence", "quality", "quarantine"):
        arguments = [group, "--install-completion", "bash"]
        ended = CliRunner().invoke(app, arguments, env={"HOME": str(tmp_path), "SHELL": "/bin/bash"})
        assert ended.exit_code == 2, ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_h_is_help_everywhere_and_version_is_the_package() -> None:
    for name in ((), *NAMES):
        ended = CliRunner().invoke(app, [*name, "-h"])
        assert (ended.exit_code, "Usage: " in ended.stdout) == (0, True), name
    assert CliRunner().invoke(app, ["--version"]).stdout == f"balancewatch {version('balancewatch')}\n"
