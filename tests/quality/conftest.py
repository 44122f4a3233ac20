"""Great Expectations imports Spark's remote client, which ends a process whose `__main__` is no file: it takes it for
a doctest. That of a pytest-xdist worker is none."""

import sys

MAIN = sys.modules["__main__"]

if MAIN.__spec__ is None and not hasattr(MAIN, "__file__"):
    MAIN.__file__ = __file__
