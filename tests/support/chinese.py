"""Whether a text for people is Chinese."""

import re

HAN = r"[\u4e00-\u9fff]"

_ENGLISH = re.compile(r"(?:\b[a-z']+ ){2}[a-z']+")
"""Three words in a row; a command has fewer before its first option."""

_BADLY_SPACED = re.compile(rf"{HAN}(?: {HAN}|[a-zA-Z`])|[a-zA-Z0-9`)]{HAN}")
"""Spaces stand between Chinese and Latin words only."""


def is_chinese(text: str) -> bool:
    is_mixed = _ENGLISH.search(re.sub(r"`[^`]+`", "", text)) or _BADLY_SPACED.search(text)
    return re.search(HAN, text) is not None and not is_mixed
