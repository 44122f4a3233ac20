"""Text from elsewhere as a terminal may have it: what it would obey is written out, lines and tabs stay."""

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    """The text without what a terminal would obey: names come from elsewhere."""
    return text.translate(_CONTROL)
