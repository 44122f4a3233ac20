"""The `[rules]` section: thresholds, the life of each kind of alert, and overrides for some groups.

balancewatch.toml explains each key. An override may set any of them but `file`; its types and
bounds are made from those of `Rules`, so they cannot differ.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, create_model, model_validator

from conf.section import Milliseconds, MillisecondsOrZero, Name, Section, between, invalid, not_below, one_of
from udfs.alerts.kinds import KIND_FACTS

Share = Annotated[float, between(0, 1, is_open=True)]

Kind = Annotated[str, one_of(("*", *KIND_FACTS))]
"""Every kind of alert that the rules know, and `"*"` for all."""


class KindRules(Section):
    """Life of the alerts of one kind. Unset keys are those of all kinds, `"*"`; an empty severity is the rule's."""

    pending_ms: MillisecondsOrZero | None = None
    pending_evaluations: Annotated[int, between(1, 1_000)] | None = None
    recovering_ms: MillisecondsOrZero | None = None
    severity: Literal["", "critical", "error", "warning", "info"] | None = None
    is_enabled: bool | None = None


Kinds = dict[Kind, KindRules]


class Thresholds(Section):
    """Thresholds for all groups of all clusters."""

    channel_expired_ms: Milliseconds
    pull_silence_ms: Milliseconds
    settle_ms: Milliseconds
    heartbeat_late_ms: Milliseconds
    allocate_message_queue_strategy: Literal["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"]
    fault_item_idle_ms: Milliseconds
    broker_isolated_share: Share
    broker_isolated_hold_ms: Milliseconds
    broker_isolated_clear_ms: Milliseconds
    broker_evicted_ms: Milliseconds
    offset_regression_messages: Annotated[int, between(1, 1_000_000_000_000)]
    consume_silence_ms: Milliseconds
    completeness_min: Share
    max_evaluation_gap_ms: Milliseconds
    no_data_ms: Milliseconds
    no_data_page_ms: Milliseconds
    flap_slot_ms: Milliseconds
    flap_low: Share
    flap_high: Annotated[Share, not_below("flap_low")]


class Scope(Section):
    """The groups of an override. With a `consumer_group` pattern it does not apply to a cluster's brokers."""

    name: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    cluster: Name = "*"
    consumer_group: Name = "*"

    @model_validator(mode="after")
    def _has_both_flap_shares(self) -> Self:
        """Require both or none: of several overrides for one group, only a pair set together stays in order."""
        if len(self.model_fields_set & {"flap_low", "flap_high"}) == 1:
            raise invalid("give flap_high and flap_low together")
        return self


def _optional(of: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a section as optional ones, None by default."""
    return {
        name: (Annotated[(field.annotation, Field(), *field.metadata)] | None, None)
        for name, field in of.model_fields.items()
    }


Override = create_model("Override", __base__=Scope, **_optional(Thresholds), kinds=(Kinds, Field(default_factory=dict)))


class Rules(Thresholds):
    """All of `[rules]`. Later overrides win over earlier ones, key by key. `file` is empty or a rules file."""

    kinds: Kinds
    overrides: tuple[Override, ...] = Field(max_length=500)  # type: ignore[valid-type]  # made above
    file: str

    def thresholds(self) -> dict[str, Any]:
        """Return the thresholds by name; `kinds` has the keys that each kind sets."""
        kinds = {kind: of_kind.model_dump(exclude_none=True) for kind, of_kind in self.kinds.items()}
        return {**{name: getattr(self, name) for name in Thresholds.model_fields}, "kinds": kinds}

    def scopes(self) -> list[tuple[Scope, dict[str, Any]]]:
        """Return each override's scope and keys."""
        scopes: tuple[Scope, ...] = self.overrides
        return [(scope, scope.model_dump(exclude_none=True, exclude=set(Scope.model_fields))) for scope in scopes]
