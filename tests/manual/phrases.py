"""The texts to translate and the files of their translations, conf/locale/LANGUAGE/LC_MESSAGES/balancewatch.po.

`python -m tests.manual.phrases` brings the files up to date: a new text has no translation or a fuzzy one, and a text
that is gone leaves no trace.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po
from jinja2.nodes import Call, Const, Filter

from streaming.board.page import ENVIRONMENT
from streaming.text.output import say

ROOT = Path(__file__).parents[2]

LANGUAGES = ("zh",)

Template = str | tuple[str, str]
"""A template, or the template of one and that of several."""


def po_file(language: str) -> Path:
    return ROOT / "conf" / "locale" / language / "LC_MESSAGES" / "balancewatch.po"


def read_catalog(language: str) -> Catalog:
    with po_file(language).open("rb") as file:
        return read_po(file, locale=language)


def templates_of(source: str) -> Iterator[Template]:
    """Yield the literals in calls of phrase, plural, wording, gettext, Key, number_of and counted.

    Raises ValueError where phrase or plural is given something else.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        texts = [arg.value if isinstance(arg, ast.Constant) and isinstance(arg.value, str) else "" for arg in node.args]
        if node.func.id == "wording":
            yield from filter(None, texts)
        elif node.func.id in ("gettext", "Key"):
            yield from filter(None, texts[:1])
        elif node.func.id in ("number_of", "counted") and texts[1]:
            yield number_of(texts[1])
        elif node.func.id in ("phrase", "plural"):
            texts = texts[1:] if node.func.id == "plural" else texts
            if not all(texts):
                raise ValueError(f"line {node.lineno}: {ast.unparse(node)[:100]}: give the text itself")
            yield texts[0] if len(texts) == 1 else (texts[0], texts[1])


def number_of(noun: str) -> Template:
    return f"{{number}} {noun}", f"{{number}} {noun}s"


def texts_of_page(source: str) -> Iterator[Template]:
    """Yield the texts of a template of the board, and the nouns that `counted` and `describe` get."""
    for _, _, text in ENVIRONMENT.extract_translations(source):
        match [one for one in (text if isinstance(text, tuple) else (text,)) if one]:
            case [one]:
                yield one
            case [one, several, *_]:
                yield one, several
    for node in ENVIRONMENT.parse(source).find_all((Filter, Call)):
        name = node.name if isinstance(node, Filter) else getattr(node.node, "attr", "")
        if name in ("counted", "describe") and isinstance(node.args[0], Const):
            yield number_of(node.args[0].value)


def collect() -> Catalog:
    """Return all texts of the product, with the files that they are in."""
    found = Catalog()
    for path in sorted(path for room in ("udfs", "streaming") for path in (ROOT / room).rglob("*.py")):
        for template in templates_of(path.read_text()):
            found.add(template, locations=[(str(path.relative_to(ROOT)), 0)])
    for path in sorted((ROOT / "streaming/board/templates").glob("*.html")):
        for template in texts_of_page(path.read_text()):
            found.add(template, locations=[(str(path.relative_to(ROOT)), 0)])
    return found


def main() -> None:
    found = collect()
    for language in LANGUAGES:
        catalog = read_catalog(language)
        catalog.update(found, update_creation_date=False)
        with po_file(language).open("wb") as file:
            write_po(file, catalog, width=0, ignore_obsolete=True, include_lineno=False, include_previous=False)
        missing = sum(1 for entry in catalog if entry.id and (entry.fuzzy or not entry.string or not any(entry.string)))
        say(f"{po_file(language).relative_to(ROOT)}: {len(catalog)} texts, {missing} to translate")


if __name__ == "__main__":
    main()
