"""Every text that a user reads, and the words and sentences that break CONTRIBUTING's rules for them.

`python -m tests.support.words [PATH ...]` prints the offenders of files below these paths; without one, of all.
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

ROOT = Path(__file__).parents[2]
MOST_WORDS = 35

BANNED = re.compile(
    r"\b(tells?|told|telling|hears?|heard|hearing|look(?:s|ed|ing)? at|(?:what )?is so|what there is|so many|so long"
    r"|at it|in peace|stands?|as the machine's day|go(?:es)? by|gone by|goes on|went on|mend(?:s|ed|ing)?|whole"
    r"|of (?:ours|theirs|its own|their own)|nobody(?:'s)?|somebody(?:'s)?|whoever|whom|what is left|that raised"
    r"|the house|for ever|seen to|a second time round)\b",
    re.IGNORECASE,
)
"""Words and phrases of a translated text. Names of RocketMQ, Kafka, Spark and Prometheus are no prose."""

ALLOWED = {
    "stand still": "RocketMQ's users say that an offset stands still",
    "stands still": "likewise",
    "stand for": "represent",
    "stands for": "likewise",
}
"""Phrase → the reason why it is allowed, although a banned word is in it."""


CAMEL_CASE = re.compile(r"\b[A-Z][a-z]+[A-Z]\w*")
PRODUCT_NAMES = {
    "RocketMQ", "ClientId", "ClientIds", "FaultItem", "NameServer", "NameServers", "PagerDuty", "DingTalk", "DuckDB",
    "GitHub", "LitePull", "IncidentId", "JavaScript", "OpenMetrics", "PySpark", "StatefulSet", "NetworkPolicy",
}  # fmt: skip
"""CamelCase of other products, which a heading may have."""

OLDER_DOCSTRINGS = ("udfs/brokers/", "udfs/groups/")
"""Rooms whose docstrings are not read: they are yet to be rewritten."""

COMMENTED = (".yml", ".properties", ".service", ".timer", ".env", ".sh", "Dockerfile", "Makefile", ".ci/run")
"""How the names of files end whose comments are read; Makefile's are the help of `make`."""

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_SQL = re.compile(r"\b(SELECT|FROM|WHERE|INSERT|CREATE|JOIN|GROUP BY|PARTITION BY|CASE|CAST|NULL)\b")
_PATTERN = re.compile(r"\\[bdsw]|\(\?")
_SETTING = re.compile(r'\[|[\w."*]+ = ')
"""A comment that is an example of settings: a paragraph of its own."""
_HEADING = re.compile(r'\b(?:heading|panel)\((?:"[^"]*", )?"([^"]*)"')
_JINJA = re.compile(r"\{[{%#].*?[%#}]\}")
_TAG = re.compile(r"<[^>]*>")
_STRING = re.compile(r"""//.*|/?\*.*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")


@dataclass(frozen=True)
class Text:
    """One text: where it is, and whether the words of its sentences are counted (not so in tables and docstrings)."""

    path: str
    line: int
    text: str
    is_heading: bool = False
    is_counted: bool = True

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
        if not self.is_counted:
            return
        for sentence in re.split(r"(?<=[.!?])\s+|\n\s*\n", bare):
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
        if path.endswith(".zh.md") or "/zh/" in path:
            continue  # Chinese
        if path.endswith(".md"):
            yield from _page(path)
        elif is_test:
            continue
        elif path.endswith(".py"):
            yield from _code(path)
        elif path.endswith((".js", ".java")):
            yield from _other_code(path)
        elif path.endswith(".svg"):
            yield from _drawing(path)
        elif path.endswith(".html"):
            yield from _template(path)
        elif path.startswith("conf/") and path.endswith(".json"):
            yield from _dashboard(path)
        elif (path.startswith("conf/") and path.endswith(".toml")) or path.endswith(COMMENTED):
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
            yield Text(path, number, line, is_counted=False)
        elif line.strip():
            first = first if gathered else number
            gathered.append(line.strip())


def _code(path: str) -> Iterator[Text]:
    """Docstrings and strings of the code, except SQL and patterns; the help of a command is a docstring, too."""
    tree = ast.parse((ROOT / path).read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            text = node.value
        else:
            continue
        is_docstring = id(node) in docstrings and "Example: balancewatch" not in text
        if is_docstring and path.startswith(OLDER_DOCSTRINGS):
            continue
        if len(set(_SQL.findall(text))) < 2 and not text.lstrip().startswith("SELECT") and not _PATTERN.search(text):
            yield Text(path, node.lineno, _TAG.sub(". ", text), is_counted=not is_docstring)


def _other_code(path: str) -> Iterator[Text]:
    """Strings and comments of JavaScript and Java."""
    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        for found in _STRING.finditer(line):
            yield Text(path, number, found[0].strip("\"'/* "))


def _drawing(path: str) -> Iterator[Text]:
    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        for found in re.finditer(r"<text[^>]*>([^<]*)<", line):
            yield Text(path, number, found[1])


def _template(path: str) -> Iterator[Text]:
    """Headings, and the text between tags, of a page of the board."""
    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        for found in _HEADING.finditer(line):
            yield Text(path, number, found[1], is_heading=True)
        for strings in _JINJA.findall(line):
            yield from (Text(path, number, text) for text in re.findall(r'"([^"]*)"', strings) if " " in text)
        yield Text(path, number, _TAG.sub(". ", _JINJA.sub("X", line)))


def _dashboard(path: str) -> Iterator[Text]:
    lines = (ROOT / path).read_text().splitlines()
    for number, line in enumerate(lines, 1):
        for found in re.finditer(r'"(title|description|content|legendFormat|label)":\s*("(?:[^"\\]|\\.)*")', line):
            yield Text(path, number, json.loads(found[2]), is_heading=found[1] == "title")


def _comments(path: str) -> Iterator[Text]:
    """Comments and, in YAML, the annotations that Prometheus sends."""
    gathered: list[str] = []
    annotated: tuple[int, list[str]] | None = None
    for number, line in enumerate([*(ROOT / path).read_text().splitlines(), ""], 1):
        indent = len(line) - len(line.lstrip())
        if annotated and indent > annotated[0]:
            annotated[1].append(line.strip())
            continue
        if annotated:
            yield Text(path, number - len(annotated[1]), " ".join(annotated[1]).strip("\"'"))
            annotated = None
        if line.lstrip().startswith("#"):
            comment = line.lstrip("# ")
            gathered.append(f"\n\n{comment}\n\n" if _SETTING.match(comment) else comment)
            continue
        if gathered:
            yield Text(path, number - len(gathered), " ".join(gathered))
            gathered = []
        if found := re.match(r"\s*(?:summary|description): (?:[>|]-?)?(.*)", line):
            annotated = (indent, [found[1]])
        elif found := re.search(r"(?:  ## ?| # | ## )(.*)", line):
            yield Text(path, number, found[1])


def offenders(*under: str) -> list[str]:
    """What breaks the rules, of files below these paths."""
    return [offence for text in texts(*under) for offence in text.offences()]


if __name__ == "__main__":
    found = offenders(*sys.argv[1:])
    print("\n".join([*found, f"{len(found)} to rewrite"]))
