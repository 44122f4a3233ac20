"""The generated parts of the Chinese pages: the English ones, sentence by sentence as zh.toml has them."""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.manual import runbook_facts, tables
from tests.manual.block import PageError, markdown_table

ROOT = Path(__file__).parents[2]
README = ROOT / "README.zh.md"

TEXTS: Mapping[str, Mapping[str, str]] = tomllib.loads((Path(__file__).parent / "zh.toml").read_text())
"""Block → English → Chinese."""


def page_of(kind: str) -> Path:
    return ROOT / runbook_facts.RUNBOOKS / "zh" / f"{kind}.md"


def translated(block: str, english: str) -> str:
    """Return the Chinese of a sentence or a word. Raises PageError without one."""
    if english not in TEXTS[block]:
        raise PageError(f"tests/manual/zh.toml: [{block}] has no Chinese for {english!r}")
    return TEXTS[block][english]


def facts_block(kind: str) -> str:
    return "\n".join(map(_fact, runbook_facts.facts_block(kind).splitlines()))


def _fact(line: str) -> str:
    label, text = re.findall(r"- \*\*([\w ]+):?\*\* (.+)", line)[0]
    bare = text.removesuffix(".")
    match label:
        case "Fires" | "Resolves":
            said = translated("facts", text)
        case "Holds when" | "Reaches":
            said = f"{translated('facts', bare)}。"
        case "Never":
            where, why = re.findall(r"where (`.+?`): (.+)", bare)[0]
            said = f"{where} 时，{translated('facts', why)}。"
        case _ if bare == "nothing":
            said = f"{translated('facts', bare)}。"
        case _:
            names = bare.replace("no threshold, and ", "没有阈值，只有 ").replace(", and ", "、").replace(", ", "、")
            said = f"{names.replace(' or ', ' 或 ')}。"
    return f"- **{translated('facts', label)}**：{said}"


def findings_table() -> str:
    """Return the README's table with the first sentences of the Chinese runbooks."""
    head, _, *rows = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in runbook_facts.findings_table().splitlines()
    )
    found = []
    for links, severities, meaning, bound in rows:
        kinds = re.findall(r"`(\w+)`", links)
        said = translated("findings", meaning) if len(kinds) > 1 else first_sentence(kinds[0])
        place = links.replace("runbooks/", "runbooks/zh/").replace(", ", "、")
        found.append((place, severities.replace(", ", "、"), said, _span(bound)))
    return markdown_table([translated("findings", cell) for cell in head], found)


def first_sentence(kind: str) -> str:
    return page_of(kind).read_text().split("\n\n")[1].partition("。")[0] + "。"


def _span(text: str) -> str:
    both = re.sub(r"(\d+) min (\d+) s", r"\1 分 \2 秒", text)
    return re.sub(r"(\d+) s\b", r"\1 秒", re.sub(r"(\d+) min", r"\1 分钟", both)).replace(" to ", "到 ")


def commands_table() -> str:
    rows = [line.split(" | ", 1) for line in tables.commands_table().splitlines()[2:]]
    return markdown_table(
        ("", "`balancewatch ...`"),
        [
            (translated("commands", group.strip("| ")), "<br>".join(map(_command, lines.strip("| ").split("<br>"))))
            for group, lines in rows
        ],
    )


def _command(line: str) -> str:
    name, below, summary = re.findall(r"(`[\w ]+`)(?: \((.+?)\))?: (.+)", line)[0]
    names = f"（{'、'.join(below.split(', '))}）" if below else ""
    return f"{name}{names}：{translated('commands', summary)}"


BLOCKS: Mapping[str, Callable[[], str]] = {"findings": findings_table, "commands": commands_table}
"""Those of README.zh.md."""
