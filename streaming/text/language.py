"""The language of alerts, chats and the board: texts with the translations of conf/locale, a gettext catalog."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from importlib.resources import files

from udfs.alerts.phrase import Phrase, Words

LANGUAGE: ContextVar[str] = ContextVar("LANGUAGE", default="en")
"""The language of the page in work. Commands and `/api` leave it English."""


def translate(words: Words, language: str) -> str:
    return words if isinstance(words, str) else words.render(translations_of(language))


def localize(words: Words) -> str:
    """Return the text in the language of the page in work."""
    return translate(words, LANGUAGE.get())


def listed(words: Sequence[Words]) -> str:
    """Return `a, b and c` in the language of the page in work."""
    return localize(Phrase("{words}", {"words": words}))


def gettext(text: str) -> str:
    return translations_of(LANGUAGE.get()).get(text, text)


def ngettext(text: str, text_of_several: str, number: int) -> str:
    return gettext(text if number == 1 else text_of_several)


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
