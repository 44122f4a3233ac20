"""Numbers with nouns: `1 queue`, `10,000 queues`."""


def counted(number: int, noun: str) -> str:
    """Return the number, with thousands separators, and the noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
