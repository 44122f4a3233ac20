"""The rulebook that the settings make: udfs knows no settings, and conf no rules."""

from typing import Any

from conf.settings import Settings
from udfs.rulebook import Override, Rulebook
from udfs.rules import OF_ALL, KindRules, Rules


def rulebook(settings: Settings) -> Rulebook:
    """The rules of every group and cluster under these settings."""
    thresholds = settings.rules.thresholds()
    kinds = _kinds(thresholds.pop("kinds"))
    of_all = {**KindRules().__dict__, **kinds.get(OF_ALL, {})}
    base = Rules(**thresholds, kinds={kind: KindRules(**{**of_all, **values}) for kind, values in kinds.items()})
    overrides = []
    for number, (scope, changes) in enumerate(settings.rules.scopes()):
        of_kinds = _kinds(changes.pop("kinds", {}))
        name = scope.name or f"rules.overrides[{number}]"
        overrides.append(Override(name, scope.cluster, scope.consumer_group, changes, of_kinds))
    return Rulebook(base, overrides)


def _kinds(kinds: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """An empty severity is the rule's own, None."""
    return {
        kind: {name: None if value == "" else value for name, value in values.items()} for kind, values in kinds.items()
    }
