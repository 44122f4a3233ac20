"""The thresholds of every rule, as one value; RocketMQ's own clocks are the reason behind each figure."""

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
