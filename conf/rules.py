"""The `[rules]` section: thresholds, the life of each kind of alert, and overrides for some groups.

balancewatch.toml explains each key. An override may set any of them but `file`; its types and
bounds are made from those of `Rules`, so they cannot differ.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model, field_validator
from pydantic_core.core_schema import ValidationInfo

from conf.section import Milliseconds, Pattern, Section, invalid, not_below, one_of
from udfs.alerts.kinds import KIND_FACTS

Hold = Annotated[int, Field(ge=0, le=604_800_000)]
Share = Annotated[float, Field(gt=0, le=1)]

Kind = Annotated[str, one_of(("*", *KIND_FACTS))]
"""Every kind of alert that the rules know, and `"*"` for all."""


class KindRules(Section):
    """Life of the alerts of one kind. Unset keys are those of all kinds, `"*"`; an empty severity is the rule's."""

    pending_ms: Hold | None = None
    pending_evaluations: Annotated[int, Field(ge=1, le=1000)] | None = None
    recovering_ms: Hold | None = None
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
    offset_regression_messages: Annotated[int, Field(ge=1, le=1_000_000_000_000)]
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
    cluster: Pattern = "*"
    consumer_group: Pattern = "*"

    @field_validator("flap_high", check_fields=False)
    @classmethod
    def _goes_with_flap_low(cls, flap_high: float | None, known: ValidationInfo) -> float | None:
        """Require both: of several overrides for one group, only a pair set together stays in order."""
        if "flap_low" in known.data and (flap_high is None) != (known.data["flap_low"] is None):
            raise invalid("give flap_high and flap_low together")
        return flap_high


def _optional(of: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a section as optional ones, None by default."""
    return {
        name: (
            Annotated[(field.annotation, Field(), *field.metadata)] | None,
            Field(default=None, validate_default=True),
        )
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
