"""Imports without a module that they support but do not need: pandas takes 0.5 s and 50 MiB in each Python worker."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(module: str) -> Iterator[None]:
    """Let imports behave as if the module were not installed, unless it is loaded."""

    class Absent:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == module:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Absent)
    try:
        yield
    finally:
        sys.meta_path.remove(Absent)
