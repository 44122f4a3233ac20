"""A measure's process: what it returns comes back, and a measure that fails or dies is reported."""

import os
import sys

import pytest

from tests.lab.bench.apart import MeasureError, run_apart


def halve(number: int) -> tuple[int, bool]:
    return number // 2, hasattr(sys.modules["__main__"], "__file__")


def fail(reason: str) -> None:
    raise ValueError(reason)


def test_what_a_measure_returns_comes_back_from_a_process_that_has_a_main_file() -> None:
    assert run_apart(halve, 8) == (4, True)


def test_a_measure_that_fails_or_dies_is_an_error_with_its_reason() -> None:
    with pytest.raises(MeasureError, match="no batch came"):
        run_apart(fail, "no batch came")
    with pytest.raises(MeasureError, match="ended by itself"):
        run_apart(os._exit, 3)
