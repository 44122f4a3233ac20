"""How much a question may take, and what is said when it takes more."""

MEMORY_LIMIT = "2GB"
"""Of DuckDB's buffers; a process that answers somebody's own SQL gets no more for anything."""

MEMORY_BYTES = 2 << 30


def too_long(seconds: float | None) -> str:
    return "interrupted" if seconds is None else f"no answer within {seconds:g} s; ask for less, or allow more time"


def too_much(limit: str = MEMORY_LIMIT) -> str:
    return f"the answer needs more than {limit} of memory; ask for less"
