"""Sentences as data: an English template and its facts. Rules write them; rows and pages choose the language.

A template is also the key of its translation in conf/locale. `make phrases` collects the literals in calls of `phrase`
and `plural`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce


@dataclass(slots=True)
class Phrase:
    """A template, in which `{name}` stands for a fact. Facts may be phrases, too; a list reads `a, b and c`."""

    template: str
    facts: "dict[str, Fact]"

    def render(self, translations: Mapping[str, str] = {}) -> str:
        """Return the text. `translations` are by template; what they lack is English."""
        template = translations.get(self.template, self.template)
        if not self.facts:
            return template
        return template.format_map({name: _render(fact, translations) for name, fact in self.facts.items()})

    def given(self, **facts: "Fact") -> "Phrase":
        """Return the phrase with more facts."""
        return Phrase(self.template, self.facts | facts)

    __str__ = render


Words = str | Phrase
"""A text that is the same in every language, such as a name, or a phrase."""

Fact = str | int | float | Phrase | Sequence[str | Phrase]


def phrase(template: str, /, **facts: Fact) -> Phrase:
    return Phrase(template, facts)


def plural(number: int, template: str, template_of_several: str, /, **facts: Fact) -> Phrase:
    """Return a phrase that differs for 1 and for other numbers; both templates know `{number}`."""
    return Phrase(template if number == 1 else template_of_several, {"number": number, **facts})


def join_sentences(first: Words, second: Words) -> Words:
    """Return one text; an empty sentence is left out."""
    return phrase("{first} {second}", first=first, second=second) if first and second else first or second


def join_clauses(clauses: Sequence[Words]) -> Words:
    """Return `a; b; c`."""
    return reduce(lambda first, second: phrase("{first}; {second}", first=first, second=second), clauses)


def some_of(words: Sequence[Words], limit: int = 4) -> list[Words]:
    """Return a list that reads `a, b, c, d and 9 more`."""
    more = len(words) - limit
    return [*words[:limit], phrase("{number} more", number=more)] if more > 0 else [*words]


def _render(fact: Fact, translations: Mapping[str, str]) -> str | int | float:
    if isinstance(fact, Phrase):
        return fact.render(translations)
    if isinstance(fact, str | int | float):
        return fact
    *words, last = (str(_render(one, translations)) for one in fact)
    if not words:
        return last
    before = phrase(", ").render(translations).join(words)
    return phrase("{words} and {last}", words=before, last=last).render(translations)
