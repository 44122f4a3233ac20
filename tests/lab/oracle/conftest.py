"""The random numbers of the oracle's tests, and the end of its JVMs.

A run asks the same cases as the run before. ORACLE_CASES=10 runs each test that draws ten times, the first time as
without it and then with other cases; ORACLE_SEED, any text, draws others throughout. A test's name (`[dice7-4.9.8]`)
and ORACLE_SEED find a difference again.
"""

import os
from collections.abc import Iterator
from random import Random

import pytest

from tests.lab.oracle import stop_judges

TIMES = range(int(os.environ.get("ORACLE_CASES", "1")))
SEED = os.environ.get("ORACLE_SEED", "")


@pytest.fixture(params=TIMES, ids="rng{}".format)
def random(request: pytest.FixtureRequest) -> Random:
    """The random numbers of one test, release and time."""
    return Random(f"{request.node.name} {SEED}")


@pytest.fixture(scope="package", autouse=True)
def _judges() -> Iterator[None]:
    yield
    stop_judges()
