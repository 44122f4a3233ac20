"""The translations: every text has one, with the same facts, commands and names of settings."""

import re
from string import Formatter

import pytest
from babel.messages.catalog import Message

from tests.manual.phrases import LANGUAGES, collect, read_catalog, templates_of
from tests.support.offenders import assert_none

CODE = re.compile(r"`[^`]+`|(?<!\w)--?\w[\w.-]*|\w*[a-z]_[a-z]\w*|\b[a-z]+[A-Z]\w*|\b\w+\(\)|https?:\S+")
"""What a translation keeps: commands, options, names of settings, of classes' members, of kinds."""

ENGLISH = re.compile(r"(?:\b[a-z']+ ){3}[a-z']+")


def ids_of(entry: Message) -> tuple[str, ...]:
    return (entry.id,) if isinstance(entry.id, str) else tuple(entry.id)


def strings_of(entry: Message) -> tuple[str, ...]:
    return (entry.string,) if isinstance(entry.string, str) else tuple(entry.string or ())


def facts_of(template: str) -> set[tuple[str | None, str | None]]:
    facts = {(name, spec) for _, name, spec, _ in Formatter().parse(template) if name is not None}
    return facts | {(name, "s") for name in re.findall(r"%\((\w+)\)s", template)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_and_no_other(language: str) -> None:
    """`make phrases` collects new texts; the translations are written by hand."""
    catalog, texts = read_catalog(language), {ids_of(entry) for entry in collect()}
    assert_none(f"not in the file: {ids}" for ids in texts - {ids_of(entry) for entry in catalog})
    assert_none(f"in no code: {ids_of(entry)}" for entry in catalog if ids_of(entry) not in texts)
    assert_none(f"not translated: {entry.id}" for entry in catalog if entry.id and not all(strings_of(entry) or ("",)))
    assert_none(f"fuzzy: {entry.id}" for entry in catalog if entry.id and entry.fuzzy)
    assert not catalog.obsolete


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_has_the_facts_and_the_code_of_its_text(language: str) -> None:
    pairs = [(ids_of(entry)[0], text) for entry in read_catalog(language) if entry.id for text in strings_of(entry)]
    assert_none(f"other facts: {text}" for template, text in pairs if facts_of(text) != facts_of(template))
    assert_none(
        f"{code!r} is missing: {text}"
        for template, text in pairs
        for code in CODE.findall(template)
        if code not in text
    )


def test_chinese_has_no_english_sentence_and_no_half_width_punctuation() -> None:
    texts = [text for entry in read_catalog("zh") if entry.id for text in strings_of(entry)]
    texts = [re.sub(r"%\((\w+)\)s", r"{\1}", text) for text in texts]
    assert_none(text for text in texts if ENGLISH.search(re.sub(r"\bmqadmin [^（：，。]+", "", text)))
    assert_none(text for text in texts if re.search(r"[\u4e00-\u9fff] ?[,;:!?]|[,;:!?] ?[\u4e00-\u9fff]", text))
    assert_none(text for text in texts if re.search(r"[\u4e00-\u9fff][a-zA-Z`]|[a-zA-Z`][\u4e00-\u9fff]", text))


def test_a_text_must_be_a_literal() -> None:
    assert list(templates_of('wording(plural(n, "one", "{number}"), "advice")\nphrase("text", a=phrase("fact"))')) == [
        "advice",
        "text",
        ("one", "{number}"),
        "fact",
    ]
    with pytest.raises(ValueError, match="line 1: phrase"):
        list(templates_of('phrase(f"{name} is down")'))
