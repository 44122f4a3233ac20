"""The rules as conf/balancewatch.toml has them, for tests, with what a test changes of them."""

from dataclasses import replace
from typing import Any

from streaming.queries import rulebook
from udfs.alerts.rules import OF_ALL, KindRules, Rules


def default_rules(**changes: Any) -> Rules:
    return replace(rulebook.default_rules(), **changes)


def kind_rules(**changes: Any) -> KindRules:
    """How a kind lives that sets nothing itself, but for the changes."""
    return replace(default_rules().of_kind(OF_ALL), **changes)
