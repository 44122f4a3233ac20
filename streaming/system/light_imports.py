"""Imports without numpy and pandas, which pyarrow and PySpark support but do not need: they take 0.5 s and 50 MiB."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """Let imports behave as if these modules were not installed, except for those that are loaded."""

    class Absent:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name in modules:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Absent)
    try:
        yield
    finally:
        sys.meta_path.remove(Absent)
