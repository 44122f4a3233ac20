"""Parameters of slow tests that only `make proof` plays."""

from collections.abc import Iterable
from typing import Any

import pytest


def in_proof(values: Iterable[Any]) -> list[Any]:
    """Return each value, or tuple of values, as a parameter of `make proof` alone; a single tuple is `(one,)`."""
    return [pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.proof) for one in values]
