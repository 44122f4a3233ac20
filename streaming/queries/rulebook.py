"""The rulebook of the settings: `udfs` knows no settings, and `conf` no rules."""

from functools import cache
from typing import Any

from conf import rules as conf_rules
from conf.settings import DEFAULTS, Settings
from conf.sources import read_toml
from udfs.alerts.rulebook import Override, Rulebook
from udfs.alerts.rules import OF_ALL, KindRules, Rules


def rulebook(settings: Settings) -> Rulebook:
    """The rules of every group and cluster under these settings; the canary lives by the defaults."""
    overrides = []
    for number, (scope, changes) in enumerate(settings.rules.scopes()):
        of_kinds = _kinds(changes.pop("kinds", {}))
        name = scope.name or f"rules.overrides[{number}]"
        overrides.append(Override(name, scope.cluster, scope.consumer_group, changes, of_kinds))
    return Rulebook(_rules(settings.rules), overrides, default_rules())


@cache
def default_rules() -> Rules:
    """Return the rules of balancewatch.toml, whatever else is set."""
    return _rules(conf_rules.Rules.model_validate(read_toml(DEFAULTS)["rules"]))


def _rules(section: conf_rules.Rules) -> Rules:
    thresholds = section.thresholds()
    kinds = _kinds(thresholds.pop("kinds"))
    return Rules(**thresholds, kinds={kind: KindRules(**{**kinds[OF_ALL], **values}) for kind, values in kinds.items()})


def _kinds(kinds: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the kinds with None, the rule's own value, for an empty severity."""
    return {
        kind: {name: None if value == "" else value for name, value in values.items()} for kind, values in kinds.items()
    }
