"""The names in a PromQL expression: the metrics it reads, and the labels it gives or asks for."""

import re
from dataclasses import dataclass

_STRING = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"\[[^\[\]]*\]|\boffset\s+\w+")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_NAME = re.compile(r"[A-Za-z_:][\w:]*")
_WORDS = {"and", "or", "unless", "bool", "by", "without", "on", "ignoring", "inf", "nan"}


@dataclass(frozen=True)
class Names:
    """Of one expression."""

    metrics: frozenset[str]
    labels: frozenset[str]


def names_in(expression: str) -> Names:
    """Function names are left out; so are strings, ranges and numbers."""
    text = _STRING.sub('""', expression)
    labels = {label for inside in _BRACES.findall(text) for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inside)}
    text = _RANGE.sub("", _BRACES.sub("", text))
    labels |= {label for inside in _GROUPING.findall(text) for label in _NAME.findall(inside)}
    text = _GROUPING.sub(" ", text)
    called = set(re.findall(r"([A-Za-z_]\w*)\s*\(", text))
    words = set(_NAME.findall(re.sub(r"\b\d[\w.]*", "", text)))
    return Names(frozenset(words - called - _WORDS), frozenset(labels))
