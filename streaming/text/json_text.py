"""JSON that a column of a table holds as text."""

import json
from typing import Any


def parse_object(text: str | None) -> dict[str, Any]:
    """Empty where the text is no JSON object: one row that cannot be read must not hide the others."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
