"""Fenced code blocks of a Markdown page, and the shell commands that console blocks show."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: what language it says it is, its text, and the page's line that it begins at."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """The page's blocks in these languages, in order."""
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found["language"], found["text"])
        for found in _FENCE.finditer(text)
        if found["language"] in languages
    ]


def commands_of(block: Block) -> Iterator[str]:
    """The lines after `$ `, those that end in a backslash joined with the next, without what follows a ` # `."""
    lines = iter(block.text.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            continue
        command = line[2:]
        while command.endswith("\\"):
            command = command[:-1] + next(lines).strip()
        yield re.sub(r"\s+#\s.*$", "", command).strip()
