"""JSON in text columns of tables."""

import json
from typing import Any


def parse_object(text: str | None) -> dict[str, Any]:
    """Return the object, or {} for any other text: an unreadable row must not hide the others."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
