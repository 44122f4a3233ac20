"""Sentences about alerts on balancewatch itself, with the values in force."""

import re
from dataclasses import asdict
from functools import reduce
from typing import Any

from conf.settings import Settings
from streaming.text.times import span_text
from udfs.alerts.self_kinds import KEY, LIMITS


def setting(key: str, settings: Settings) -> Any:
    return reduce(getattr, key.split("."), settings)


def fill_in(text: str, settings: Settings) -> str:
    """Return the text with `{section.key}` as section.key (value), and `{name}` as that limit."""
    reported = KEY.sub(lambda found: f"{found[1]} ({_describe(found[1], setting(found[1], settings))})", text)
    limits = {name: _describe(name, value) for name, value in asdict(LIMITS).items()}
    return re.sub(r"\{([a-z_]+)\}", lambda found: limits[found[1]], reported)


def _describe(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if key.endswith("_ms"):
        return span_text(value)
    return span_text(round(value * 1000)) if key.endswith("_seconds") else f"{value:g}"
