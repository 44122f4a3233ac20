"""The thresholds of every rule, as one value; RocketMQ's own clocks are the reason behind each figure.

No figure has a default here: they are in conf/balancewatch.toml, and streaming.queries.rulebook makes these of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

LONG_POLL_MS = 15_000
"""BROKER_SUSPEND_MAX_TIME_MILLIS: an idle healthy queue is pulled at least this often."""

PULL_MAX_IDLE_MS = 120_000
"""ProcessQueue.PULL_MAX_IDLE_TIME: a client drops a queue it has not pulled for this long, and takes it anew."""

FORGET_GROUP_MS = 86_400_000
"""A group without a member for a day counts as given up: its alerts end, and nothing of it is kept."""

REBALANCE_MS = 20_000
"""RebalanceService's wait interval."""


@dataclass(frozen=True)
class KindRules:
    """How alerts of one kind live, on top of the hold that the kind's own rule has.

    pending_ms    event time for which the condition must have held before it fires
    pending_evaluations evaluations at which it must have held: a stalled stream gives long times with a single one
    recovering_ms event time that it must stay away before it is over; it comes back as the same incident meanwhile
    severity      replaces what the rule says; None keeps that
    is_enabled    False: never more than PENDING
    """

    pending_ms: int
    pending_evaluations: int
    recovering_ms: int
    severity: str | None
    is_enabled: bool


OF_ALL = "*"
"""The key in `Rules.kinds` of how all kinds live that have no entry."""


@dataclass(frozen=True)
class Rules:
    """Thresholds in ms of event time; conf/balancewatch.toml says what each mirrors and costs."""

    channel_expired_ms: int
    pull_silence_ms: int
    settle_ms: int
    heartbeat_late_ms: int
    allocate_message_queue_strategy: str
    fault_item_idle_ms: int
    broker_isolated_share: float
    broker_isolated_hold_ms: int
    broker_isolated_clear_ms: int
    broker_evicted_ms: int
    offset_regression_messages: int
    consume_silence_ms: int
    completeness_min: float
    max_evaluation_gap_ms: int
    no_data_ms: int
    no_data_page_ms: int
    flap_slot_ms: int
    flap_high: float
    flap_low: float
    kinds: Mapping[str, KindRules]

    def of_kind(self, kind: str) -> KindRules:
        return self.kinds.get(kind) or self.kinds[OF_ALL]
