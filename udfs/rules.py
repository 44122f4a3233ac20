"""The thresholds of every rule, as one value; RocketMQ's own clocks are the reason behind each figure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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

    pending_ms    event time that the condition must have been seen to hold before it fires
    pending_looks looks at which it must have held: a stalled stream gives long times with a single one
    recovering_ms event time that it must stay away before it is over; it comes back as the same incident meanwhile
    severity      replaces what the rule says; None keeps that
    is_enabled    False: never more than PENDING
    """

    pending_ms: int = 0
    pending_looks: int = 2
    recovering_ms: int = 60_000
    severity: str | None = None
    is_enabled: bool = True


STRUCTURAL = KindRules(pending_looks=1, recovering_ms=30_000)
"""For what is so, not what was not seen: twins are proven by three heartbeats before they are found at all."""

IN_ROUNDS = KindRules(pending_looks=1)
"""For what its own rule has counted rounds for."""

OF_ALL = "*"
"""The key in `Rules.kinds` of how all kinds live that have no entry of their own."""

KINDS: Mapping[str, KindRules] = {
    OF_ALL: KindRules(),
    "duplicate_client_id": STRUCTURAL,
    "broker_evicted": STRUCTURAL,
    "broker_isolated": KindRules(recovering_ms=0),  # broker_isolated_clear_ms has passed before it counts as gone
    "no_available_broker": KindRules(recovering_ms=0),
    "unheard_cluster": IN_ROUNDS,
    "unheard_broker": IN_ROUNDS,
    "slow_collector": IN_ROUNDS,
    "clock_skew": IN_ROUNDS,
    "rule_failed": KindRules(pending_looks=1, recovering_ms=0),
}


@dataclass(frozen=True)
class Rules:
    """Thresholds in ms of event time; conf/balancewatch.toml says what each mirrors and costs."""

    channel_expired_ms: int = 120_000
    pull_silence_ms: int = 45_000
    settle_ms: int = 80_000
    heartbeat_late_ms: int = 70_000
    allocate_message_queue_strategy: str = "AVG"
    fault_item_idle_ms: int = 1_800_000
    broker_isolated_share: float = 0.5
    broker_isolated_hold_ms: int = 30_000
    broker_isolated_clear_ms: int = 60_000
    broker_evicted_ms: int = 60_000
    offset_regression_messages: int = 1_000
    consume_silence_ms: int = 180_000
    completeness_min: float = 0.7
    blind_ms: int = 60_000
    unheard_ms: int = 30_000
    unheard_page_ms: int = 120_000
    flap_slot_ms: int = 60_000
    flap_high: float = 0.25
    flap_low: float = 0.1
    kinds: Mapping[str, KindRules] = field(default_factory=lambda: KINDS)

    def of_kind(self, kind: str) -> KindRules:
        """How alerts of this kind live."""
        return self.kinds.get(kind) or self.kinds[OF_ALL]
