"""Limits of a query, and the errors when it exceeds them."""

MEMORY_LIMIT = "2GB"
"""Limit of DuckDB's buffers, and of the entire process that answers SQL of the user."""

MEMORY_BYTES = 2 << 30


def too_long(seconds: float | None) -> str:
    return "interrupted" if seconds is None else f"no answer within {seconds:g} s; select less, or allow more time"


def too_much(limit: str = MEMORY_LIMIT) -> str:
    return f"the query needs more than {limit} of memory; select less"
