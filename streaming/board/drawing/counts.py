"""Numbers with their nouns, as pages say them: `1 queue`, `10,000 queues`."""


def counted(number: int, noun: str) -> str:
    """The number, thousands apart, and the noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
