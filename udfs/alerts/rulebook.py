"""The rules of each group: one set of thresholds for all, and overrides for the groups whose names match a pattern.

Patterns are those of fnmatch, case and all. What holds for a cluster's brokers is what holds for every group of it: an
override for some groups only leaves them alone.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import translate
from hashlib import sha256
from typing import Any

from udfs.alerts.rules import OF_ALL, KindRules, Rules

MOST_REMEMBERED = 100_000
"""Groups whose rules are remembered; then they are found anew."""

EVERY = "*"

CANARY_CLUSTER = "balancewatch_canary"
"""The modelled twins' cluster: what people quiet or slow down is not what the way is measured by."""


@dataclass(frozen=True)
class Override:
    """What is different where both patterns match. `kinds` has the keys it sets of each kind, or of all as `"*"`."""

    name: str
    cluster: str = EVERY
    consumer_group: str = EVERY
    thresholds: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def changes(self) -> Iterator[tuple[str, Any]]:
        """Each key it sets, `kinds.starved_queue.pending_ms` where it is a kind's, with the value."""
        yield from self.thresholds.items()
        for kind, values in self.kinds.items():
            for name, value in values.items():
                yield f"kinds.{kind}.{name}", value


class Rulebook:
    """Base and overrides, in their order: of those that match a later one wins over an earlier one, key by key.

    A kind takes from `"*"` what neither the base sets otherwise for it nor an override.
    """

    def __init__(self, base: Rules, overrides: Sequence[Override] = (), canary: Rules | None = None) -> None:
        """`canary` are the canary's, the base without. Raises TypeError for a key that is none."""
        self.base, self.overrides, self._canary = base, tuple(overrides), canary or base
        self._matchers = [  # fnmatch's translation has no backtracking that grows with the number of stars
            tuple(re.compile(translate(pattern)).match for pattern in (one.cluster, one.consumer_group))
            for one in self.overrides
        ]
        self._of_groups: dict[tuple[str, str | None], Rules] = {}
        self._of_matches: dict[tuple[int, ...], Rules] = {(): base}
        for number in range(len(self.overrides)):
            self._combine((number,))

    def of(self, cluster: str, consumer_group: str | None = None) -> Rules:
        """The rules of a group, or without one those of the cluster's brokers. The same object each time.

        The canary's are its own, whatever the overrides match.
        """
        if cluster == CANARY_CLUSTER:
            return self._canary
        if not self.overrides:
            return self.base
        key = (cluster, consumer_group)
        rules = self._of_groups.get(key)
        if rules is None:
            if len(self._of_groups) >= MOST_REMEMBERED:
                self._of_groups.clear()
            rules = self._of_groups[key] = self._combine(self._matching(cluster, consumer_group))
        return rules

    def why(self, cluster: str, consumer_group: str | None = None) -> dict[str, Override]:
        """Which override set each key that any override sets for the group; the others are the base's."""
        matching = [self.overrides[number] for number in self._matching(cluster, consumer_group)]
        return {key: override for override in matching for key, _ in override.changes()}

    @property
    def fingerprint(self) -> str:
        """Another one for other rules, the same in every process."""
        return sha256(repr((self.base, self.overrides)).encode()).hexdigest()[:16]

    def _matching(self, cluster: str, consumer_group: str | None) -> tuple[int, ...]:
        return tuple(
            number
            for number, (is_cluster, is_group) in enumerate(self._matchers)
            if is_cluster(cluster)
            and (
                self.overrides[number].consumer_group == EVERY
                or (consumer_group is not None and is_group(consumer_group))
            )
        )

    def _combine(self, matching: tuple[int, ...]) -> Rules:
        if matching not in self._of_matches:
            thresholds: dict[str, Any] = {}
            kinds = _own_keys(self.base)
            for number in matching:
                thresholds |= self.overrides[number].thresholds
                for kind, values in self.overrides[number].kinds.items():
                    kinds[kind] = {**kinds.get(kind, {}), **values}
            of_all = KindRules(**kinds[OF_ALL])
            of_kinds = {kind: replace(of_all, **values) for kind, values in kinds.items()}
            self._of_matches[matching] = replace(self.base, **thresholds, kinds=of_kinds)
        return self._of_matches[matching]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rulebook) and (self.base, self.overrides) == (other.base, other.overrides)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """What is remembered stays here."""
        return Rulebook, (self.base, self.overrides, self._canary)


def _own_keys(rules: Rules) -> dict[str, dict[str, Any]]:
    """Of each kind what it does not share with `"*"`."""
    of_all = asdict(rules.of_kind(OF_ALL))
    own = {
        kind: {name: value for name, value in asdict(of_kind).items() if value != of_all[name]}
        for kind, of_kind in rules.kinds.items()
    }
    return {**own, OF_ALL: of_all}
