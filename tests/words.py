"""Every text that a user reads, and the words and sentences that break CONTRIBUTING's rules for them.

`python -m tests.words [PATH ...]` prints the offenders of files below these paths; without one, of all.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_WORDS = 35

BANNED = re.compile(
    r"\b(tells?|told|telling|hears?|heard|look(?:s|ed|ing)? at|(?:what )?is so|so many|so long|at it|in peace|stands?"
    r"|go(?:es)? by|gone by|goes on|went on|mend(?:s|ed|ing)?|whole|of (?:ours|theirs|its own|their own)|nobody(?:'s)?"
    r"|somebody(?:'s)?|whoever|whom|what is left|that raised|the house|for ever|seen to|a second time round)\b",
    re.IGNORECASE,
)
"""Words and phrases of a translated text. Names of RocketMQ, Kafka, Spark and Prometheus are no prose."""

ALLOWED = {
    "stand still": "RocketMQ's users say that an offset stands still",
    "stands still": "likewise",
}
"""Phrase → the reason why it is allowed, although a banned word is in it."""

NO_PROSE = {"streaming/store/sql_functions.py"}
"""Files whose strings are lists of names, here DuckDB's functions."""

CAMEL_CASE = re.compile(r"\b[A-Z][a-z]+[A-Z]\w*")
PRODUCT_NAMES = {
    "RocketMQ", "ClientId", "ClientIds", "FaultItem", "NameServer", "NameServers", "PagerDuty", "DingTalk", "DuckDB",
    "GitHub", "LitePull", "IncidentId", "JavaScript", "OpenMetrics", "PySpark", "StatefulSet", "NetworkPolicy",
}  # fmt: skip
"""CamelCase of other products, which a heading may have."""

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_SQL = re.compile(r"\b(SELECT|FROM|WHERE|INSERT|CREATE|JOIN|GROUP BY)\b")


@dataclass(frozen=True)
class Text:
    """One text: where it is, and whether its sentences are counted (not so in tables)."""

    path: str
    line: int
    text: str
    is_heading: bool = False
    is_table: bool = False

    def offences(self) -> Iterator[str]:
        """`path:line: what is wrong: the text`, once for each."""
        bare = re.sub(r"`[^`]*`", "X", self.text)
        for phrase in ALLOWED:
            bare = re.sub(rf"\b{phrase}\b", "X", bare, flags=re.IGNORECASE)
        for found in BANNED.finditer(bare):
            yield self._say(f"banned {found[0]!r}", bare[max(found.start() - 40, 0) : found.end() + 40])
        if self.is_heading:
            for found in CAMEL_CASE.finditer(bare):
                if found[0] not in PRODUCT_NAMES:
                    yield self._say(f"CamelCase {found[0]!r}", bare)
        if self.is_table:
            return
        for sentence in re.split(r"(?<=[.!?;:])\s+|\n\s*\n", bare):
            if len(words := sentence.split()) > MOST_WORDS:
                yield self._say(f"{len(words)} words", " ".join(words[:12]))

    def _say(self, offence: str, excerpt: str) -> str:
        return f"{self.path}:{self.line}: {offence}: {' '.join(excerpt.split())}"


def texts(*under: str) -> Iterator[Text]:
    """The texts of all tracked files below these paths that a user reads."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *under], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    for path in listed.stdout.splitlines():
        is_test = path.startswith("tests/")
        if path.endswith(".md"):
            yield from _page(path)
        elif path.endswith(".py") and not is_test and path not in NO_PROSE:
            yield from _code(path)
        elif path.startswith("conf/") and path.endswith(".json"):
            yield from _dashboard(path)
        elif path.startswith("conf/") and path.endswith((".toml", ".yml", ".properties")):
            yield from _comments(path)
        elif path.endswith(".toml") and "/scenarios/" in path:
            yield Text(path, 1, str(tomllib.loads((ROOT / path).read_text()).get("description", "")))


def _page(path: str) -> Iterator[Text]:
    """Paragraphs, list entries, headings and tables of a page, without code."""
    blank = lambda found: "\n" * found[0].count("\n")  # noqa: E731  # the lines keep their numbers
    text = _COMMENT.sub(blank, _FENCE.sub(blank, (ROOT / path).read_text()))
    text = re.sub(r"\]\([^)]*\)", "]", text)
    gathered: list[str] = []
    first = 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        is_apart = not line.strip() or re.match(r"\s*(#|\||[-*] |\d+\. |>)", line)
        if is_apart and gathered:
            yield Text(path, first, " ".join(gathered))
            gathered = []
        if line.startswith("#"):
            yield Text(path, number, line.lstrip("# "), is_heading=True)
        elif line.lstrip().startswith("|"):
            yield Text(path, number, line, is_table=True)
        elif line.strip():
            first = first if gathered else number
            gathered.append(line.strip())


def _code(path: str) -> Iterator[Text]:
    """Strings that read as prose: messages, sentences of alerts and pages, and the help of commands."""
    tree = ast.parse((ROOT / path).read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    attribute = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            text = node.value
            if id(node) in docstrings | attribute and "Example: balancewatch" not in text:
                continue
        else:
            continue
        if len(text.split()) > 1 and not _SQL.search(text) and not re.search(r"\\[bdsw]|\(\?", text):
            yield Text(path, node.lineno, text)


def _dashboard(path: str) -> Iterator[Text]:
    lines = (ROOT / path).read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if found := re.match(r'\s*"(title|description)": (".*"),?$', line):
            yield Text(path, number, json.loads(found[2]), is_heading=found[1] == "title")


def _comments(path: str) -> Iterator[Text]:
    """Comments and, in YAML, the annotations that Prometheus sends."""
    gathered: list[str] = []
    for number, line in enumerate([*(ROOT / path).read_text().splitlines(), ""], 1):
        if line.lstrip().startswith("#"):
            gathered.append(line.lstrip("# "))
            continue
        if gathered:
            yield Text(path, number - len(gathered), " ".join(gathered))
            gathered = []
        if found := re.match(r"\s*(summary|description): (.*)", line):
            yield Text(path, number, found[2].strip("\"'"))
        elif "  # " in line:
            yield Text(path, number, line.partition("  # ")[2])


def offenders(*under: str) -> list[str]:
    """What breaks the rules, of files below these paths."""
    return [offence for text in texts(*under) for offence in text.offences()]


if __name__ == "__main__":
    found = offenders(*sys.argv[1:])
    print("\n".join([*found, f"{len(found)} to rewrite"]))
