"""The language of alerts and chats: phrases with the translations of conf/locale, which gettext's tools can edit."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from udfs.alerts.phrase import Words


def translate(words: Words, language: str) -> str:
    return words if isinstance(words, str) else words.render(translations_of(language))


@cache
def translations_of(language: str) -> Mapping[str, str]:
    """Return template → translation, read once in a process. Works from the zip that Spark's executors get."""
    if language == "en":
        return {}
    from babel.messages.pofile import read_po  # noqa: PLC0415  # not needed for English

    with (files("conf") / "locale" / language / "LC_MESSAGES" / "balancewatch.po").open("rb") as file:
        catalog = read_po(file)
    translations: dict[str, str] = {}
    for entry in catalog:
        templates = [entry.id] if isinstance(entry.id, str) else entry.id
        text = entry.string if isinstance(entry.string, str) else (entry.string or [""])[0]  # Chinese has one form
        translations |= dict.fromkeys(templates, text) if entry.id and text and not entry.fuzzy else {}
    return translations
