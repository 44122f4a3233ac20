"""The Chinese pages follow the English ones: structure, code, links and figures of each section are the same."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from tests.manual.block import PageError
from tests.manual.chinese import README, ROOT, TEXTS, translated
from tests.manual.runbook_facts import RUNBOOKS
from tests.support.offenders import assert_none

FOLDER = ROOT / RUNBOOKS
PAIRS = {ROOT / "README.md": README, **{page: FOLDER / "zh" / page.name for page in sorted(FOLDER.glob("*.md"))}}
"""English page → Chinese page."""

CODE, LINKS, FIGURES, BLOCKS = "code in backticks", "links", "figures", "paragraphs, list entries and table cells"

HAN, SIGN = "[\u4e00-\u9fff]", "[，。；：、（）“”]"
CROWDED = re.compile(rf"{HAN}[A-Za-z0-9`]|[A-Za-z0-9`]{HAN}")
HALF_WIDTH = re.compile(rf"{HAN} ?[,;:?!()\"]|[,;:?!()\"] ?{HAN}|{HAN}\.|{SIGN} (?!\||$)|(?<!\|) {SIGN}")


@dataclass
class Section:
    """A heading and what is below it, up to the next heading."""

    line: int
    level: str = ""
    heading: str = ""
    fences: list[str] = field(default_factory=list)
    parts: dict[str, Counter[str]] = field(
        default_factory=lambda: {name: Counter() for name in (CODE, LINKS, FIGURES, BLOCKS)}
    )

    @property
    def anchor(self) -> str:
        return re.sub(r"[^\w\- ]", "", self.heading.lower()).replace(" ", "-")


def sections_of(text: str) -> list[Section]:
    """Return the sections of a page; the first one, before any heading, has none."""
    sections = [Section(1)]
    is_heading = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "heading_open" and token.map:
            sections.append(Section(token.map[0] + 1, token.tag))
        elif is_heading:
            sections[-1].heading = token.content.replace("`", "")
        elif token.type == "fence":
            sections[-1].fences.append(f"{token.info}\n{token.content}")
        elif token.nesting == 1:
            sections[-1].parts[BLOCKS][token.type.removesuffix("_open")] += 1
        is_heading = token.type == "heading_open"
        for child in token.children or ():
            if child.type == "code_inline":
                sections[-1].parts[CODE][child.content] += 1
            elif child.type == "link_open":
                sections[-1].parts[LINKS][unquote(str(child.attrGet("href")))] += 1
            elif child.type == "text":
                sections[-1].parts[FIGURES].update(re.findall(r"\d+(?:[.,]\d+)*", child.content))
    return sections


def chinese_link(page: Path, href: str) -> str:
    """Return a link of an English page as its translation should have it: to a Chinese page where there is one."""
    if href.startswith(("http:", "https:")):
        return href
    name, _, part = href.partition("#")
    target = (page.parent / name).resolve()
    if target == README:
        return page.name
    if target in PAIRS:
        anchors = [section.anchor for section in sections_of(target.read_text())]
        target = PAIRS[target]
        part = sections_of(target.read_text())[anchors.index(part)].anchor if part else ""
    return os.path.relpath(target, PAIRS[page].parent) + (f"#{part}" if part else "")


def differences(page: Path, english: str, chinese: str) -> Iterator[str]:
    """Yield a sentence for each part that one text of the page has and the other lacks."""
    sections, translations = sections_of(english), sections_of(chinese)
    names = page.relative_to(ROOT), PAIRS[page].relative_to(ROOT)
    if [section.level for section in sections] != [section.level for section in translations]:
        heads = [", ".join(f"{one.level} {one.heading}" for one in each[1:]) for each in (sections, translations)]
        yield f"{names[0]} has the headings {heads[0]}; {names[1]} has {heads[1]}"
        return
    for section, translation in zip(sections, translations, strict=True):
        places = f"{names[0]}:{section.line}", f"{names[1]}:{translation.line}"
        if re.fullmatch(r"[a-z_]+", section.heading) and section.heading != translation.heading:
            yield f"{places[0]}: alerts link to {section.heading}; {places[1]} has the heading {translation.heading}"
        if section.fences != translation.fences:
            yield f"{places[0]} and {places[1]}: the code blocks differ"
        section.parts[LINKS] = Counter(chinese_link(page, href) for href in section.parts[LINKS].elements())
        for name, here in section.parts.items():
            there = translation.parts[name]
            if here != there:
                only = [", ".join(sorted((one - other).elements())) for one, other in ((here, there), (there, here))]
                yield f"{name}: only at {places[0]}: {only[0] or '-'}; only at {places[1]}: {only[1] or '-'}"


def prose_of(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside code blocks, without links' addresses, each code as `X`."""
    text = re.sub(r"(?ms)^```.*?^```$", lambda found: "\n" * found[0].count("\n"), page.read_text())
    for number, line in enumerate(text.splitlines(), 1):
        yield number, re.sub(r"`[^`]*`", "`X`", re.sub(r"\]\([^)]*\)", "]", line))


def test_every_page_has_its_translation_and_no_translation_is_left_over() -> None:
    assert_none(
        f"{page.relative_to(ROOT)} has no translation" for page, chinese in PAIRS.items() if not chinese.is_file()
    )
    assert {*(FOLDER / "zh").iterdir(), *ROOT.glob("*.zh.md")} == set(PAIRS.values())


def test_each_section_of_a_translation_has_what_its_page_has() -> None:
    """Headings, code blocks, code in backticks, links, figures, paragraphs, list entries and tables."""
    assert_none(
        sentence
        for page, chinese in PAIRS.items()
        for sentence in differences(page, page.read_text(), chinese.read_text())
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("within 30 s", "within 45 s", "figures: only at EN: 45; only at ZH: 30"),
        ("`brokerRole`", "`brokerName`", "code in backticks: only at EN: brokerName; only at ZH: brokerRole"),
        ("(broker_isolated.md)", "(slave_read.md)", "links: only at EN: slave_read.md; only at ZH: broker_isolated.md"),
        ("### no_master", "### no_slave", "EN: alerts link to no_slave; ZH has the heading no_master"),
        ("\n2. If its", "\n   If its", "only at EN: -; only at ZH: list_item, paragraph"),
        ("$ mqadmin clusterList", "$ mqadmin brokerStatus", "EN and ZH: the code blocks differ"),
        ("## What to do", "## Causes\n\n## What to do", "has the headings h1 broker_without_master, h2 What it"),
    ],
)
def test_a_change_of_the_english_page_alone_is_named_with_its_place(old: str, new: str, sentence: str) -> None:
    page = FOLDER / "broker_without_master.md"
    changed = page.read_text().replace(old, new)
    (found, *_) = differences(page, changed, PAIRS[page].read_text())
    for name, path, text in (("EN", page, changed), ("ZH", PAIRS[page], PAIRS[page].read_text())):
        for place, line in re.findall(rf"({path.relative_to(ROOT)}:(\d+))", found):
            assert text.splitlines()[int(line) - 1].startswith("#")
            found = found.replace(place, name)
    assert sentence in found


def test_the_two_readmes_link_to_each_other_in_their_first_lines() -> None:
    first = {page.name: page.read_text().split("\n\n")[1] for page in (ROOT / "README.md", README)}
    assert "](README.zh.md)" in first["README.md"]
    assert "](README.md)" in first["README.zh.md"]


def test_chinese_has_full_width_punctuation_and_a_space_beside_latin() -> None:
    assert_none(
        f"{chinese.relative_to(ROOT)}:{number}: {line[max(found.start() - 10, 0) : found.end() + 10]}"
        for chinese in PAIRS.values()
        for number, line in prose_of(chinese)
        for found in [*CROWDED.finditer(line), *HALF_WIDTH.finditer(line)]
    )


def test_each_sentence_of_the_generated_parts_is_needed_and_a_missing_one_is_named() -> None:
    pages = "\n".join(page.read_text() for page in PAIRS)
    assert_none(english for texts in TEXTS.values() for english in texts if english not in pages)
    with pytest.raises(PageError, match=r"tests/manual/zh.toml: \[facts\] has no Chinese for 'a new condition'"):
        translated("facts", "a new condition")
