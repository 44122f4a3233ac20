"""Settings of these tests come from their own files and variables alone."""

import os

import pytest


@pytest.fixture(autouse=True)
def _unset_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("BALANCEWATCH_")]:
        monkeypatch.delenv(name)
