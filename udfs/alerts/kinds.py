"""Facts about each kind of alert: the thresholds of its rule, its severities, and the kinds that inhibit it.

For the runbooks and `balancewatch alerts rules`. The rules read only the causes and their order (OF_QUEUES);
tests/udfs/alerts/test_kinds.py compares the rest with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

NO_MASTER = ("broker_without_master",)
"""Explains only what needs a master: slaves still serve reads."""

ABOVE_GROUPS = ("cluster_no_data", "broker_no_data", "cluster_name_conflict")
"""Problems of a broker or of all brokers explain most problems of the groups."""

OF_QUEUES = (
    "duplicate_client_id",
    "member_not_subscribed",
    "consume_disabled",
    "mixed_strategy",
    "strategy_gap",
    "write_only_queue",
    "split_view",
    "stale_route",
    "order_lock",
    "frozen_client",
    "consume_stopped",
    "pull_stopped",
    "group_offline",
)
"""Causes of a queue without a consumer, strongest first (udfs.groups.diagnosis)."""


@dataclass(frozen=True)
class KindFacts:
    """`holds_when` completes the sentence "The condition holds when ...".

    thresholds     keys of Rules that decide whether and since when the condition holds; the longest that applies counts
    severities     severities that the rule gives, by cause; KindRules.severity replaces them
    inhibited_by   kinds whose open incident inhibits this kind
    causes         causes that incidents of this kind may name, unless the cause is always the kind itself
    is_of_group    evaluated for one consumer group; otherwise for a cluster's brokers
    """

    holds_when: str
    thresholds: tuple[str, ...]
    severities: tuple[str, ...]
    inhibited_by: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    is_of_group: bool = True


KIND_FACTS: Mapping[str, KindFacts] = {
    "starved_queue": KindFacts(
        "no client has pulled a queue for pull_silence_ms and the cause is certain, or the committed offset has stood "
        "still for consume_silence_ms plus 40 s while messages wait. A cause is certain when members and routes have "
        "not changed for settle_ms, a frozen owner's heartbeat is heartbeat_late_ms old, or a live owner has not "
        "pulled for 120 s",
        (
            "pull_silence_ms",
            "settle_ms",
            "heartbeat_late_ms",
            "channel_expired_ms",
            "allocate_message_queue_strategy",
            "consume_silence_ms",
        ),
        ("critical", "warning"),
        ("starved_queue", "duplicate_client_id", "split_view", "group_offline", *ABOVE_GROUPS, *NO_MASTER),
        causes=OF_QUEUES,
    ),
    "duplicate_client_id": KindFacts(
        "two channels carry one ClientId, and each has sent a heartbeat since the other appeared",
        ("channel_expired_ms", "heartbeat_late_ms"),
        ("critical", "warning"),
    ),
    "group_offline": KindFacts(
        "a group that has consumed before has had no member for settle_ms",
        ("channel_expired_ms", "settle_ms"),
        ("warning",),
        ABOVE_GROUPS,
    ),
    "split_view": KindFacts(
        "brokers have listed different members for settle_ms; immediately if a client's heartbeats stop at one broker "
        "only",
        ("settle_ms", "heartbeat_late_ms", "channel_expired_ms"),
        ("critical", "warning"),
        ABOVE_GROUPS,
    ),
    "stalled_queue": KindFacts(
        "a queue's owner has not pulled it for settle_ms, or has not consumed it for consume_silence_ms, and the cause "
        "is not certain yet",
        ("pull_silence_ms", "settle_ms", "consume_silence_ms"),
        ("warning",),
        ("starved_queue", *ABOVE_GROUPS, *NO_MASTER),
        causes=OF_QUEUES,
    ),
    "double_consumed_queue": KindFacts(
        "two clients have pulled one queue at the same time for longer than a change of members or routes takes",
        ("pull_silence_ms", "settle_ms"),
        ("warning",),
        ("duplicate_client_id", "split_view", *ABOVE_GROUPS),
        causes=("duplicate_client_id", "mixed_strategy", "split_view", "stale_route", "unexplained"),
    ),
    "inconsistent_subscription": KindFacts(
        "members have subscribed different topics or expressions for settle_ms",
        ("settle_ms", "heartbeat_late_ms"),
        ("warning",),
        ("starved_queue",),
    ),
    "slave_read": KindFacts(
        "a slave has served the group's pulls for 30 s; warning if the master is down, else info",
        (),
        ("warning", "info"),
        (*ABOVE_GROUPS, *NO_MASTER),
        causes=("master_down", "master_busy"),
    ),
    "offset_regression": KindFacts(
        "committed offsets went back; warning from offset_regression_messages messages on, below that info",
        ("offset_regression_messages",),
        ("warning", "info"),
        ABOVE_GROUPS,
    ),
    "order_at_risk": KindFacts(
        "a broker, a master or queues of an ordered topic have been missing for 30 s",
        (),
        ("warning",),
        (*ABOVE_GROUPS, *NO_MASTER),
        causes=("broker_down", "master_down", "queues_lost"),
    ),
    "client_id_at_risk": KindFacts(
        "ClientIds have been unique only by chance for settle_ms",
        ("settle_ms",),
        ("info",),
        ("duplicate_client_id",),
    ),
    "broker_isolated": KindFacts(
        "at least broker_isolated_share of a broker's producers have avoided it for broker_isolated_hold_ms; pauses "
        "shorter than broker_isolated_clear_ms do not reset this time",
        (
            "broker_isolated_share",
            "broker_isolated_hold_ms",
            "broker_isolated_clear_ms",
            "broker_evicted_ms",
            "fault_item_idle_ms",
        ),
        ("critical", "error", "warning"),
        ("no_available_broker", "broker_no_data", "broker_without_master"),
        causes=("failing_broker", "slow_broker"),
        is_of_group=False,
    ),
    "broker_evicted": KindFacts(
        "a 5.1.4 producer still avoids a broker broker_evicted_ms after the avoidance should have ended",
        ("broker_evicted_ms", "fault_item_idle_ms"),
        ("error",),
        causes=("permanent_eviction",),
        is_of_group=False,
    ),
    "no_available_broker": KindFacts(
        "a producer has avoided all of its brokers at once for broker_isolated_hold_ms; except a producer whose sends "
        "succeed and have all been slow for a day or since its first send",
        ("broker_isolated_hold_ms", "broker_isolated_clear_ms", "fault_item_idle_ms"),
        ("critical", "warning"),
        causes=("all_brokers", "producer_host"),
        is_of_group=False,
    ),
    "cluster_no_data": KindFacts(
        "less than completeness_min of a cluster's brokers give data: recorded after no_data_ms, notified after "
        "no_data_page_ms",
        ("completeness_min", "no_data_ms", "no_data_page_ms", "heartbeat_late_ms"),
        ("error",),
        causes=("not_answering", "collector_silent", "nothing_arrives", "no_clock", "events_dropped", "pulls_missing"),
        is_of_group=False,
    ),
    "broker_no_data": KindFacts(
        "a broker does not answer, or its clients reach all other brokers but not this one: recorded after no_data_ms, "
        "notified after no_data_page_ms",
        ("no_data_ms", "no_data_page_ms", "heartbeat_late_ms"),
        ("critical",),
        ("cluster_no_data", "broker_isolated"),
        causes=("not_answering", "answers_seldom", "clients_silent", "pulls_missing"),
        is_of_group=False,
    ),
    "broker_without_master": KindFacts(
        "routes have named only slaves of a broker for 30 s",
        (),
        ("error",),
        ("broker_no_data", "broker_isolated"),
        causes=("no_master",),
        is_of_group=False,
    ),
    "slow_collector": KindFacts(
        "the median gap between a cluster's poll rounds exceeds 30 s (at least three gaps), or the poll interval is "
        "set above 30 s",
        (),
        ("warning",),
        causes=("slow_rounds",),
        is_of_group=False,
    ),
    "name_server_unreachable": KindFacts(
        "a NameServer of collector.name_server has not answered any collector for two poll rounds; warning while "
        "another NameServer answers",
        (),
        ("error", "warning"),
        causes=("some_unreachable", "all_unreachable"),
        is_of_group=False,
    ),
    "cluster_name_conflict": KindFacts(
        "two collectors have reached brokers with the same names at different addresses for 30 s",
        (),
        ("error",),
        causes=("two_clusters",),
        is_of_group=False,
    ),
    "clock_skew": KindFacts(
        "a clock has differed from Kafka's by more than 10 s for 30 s; immediately if a clock event is 1 min ahead",
        (),
        ("warning",),
        causes=("clock_ahead", "clock_out_of_step"),
        is_of_group=False,
    ),
    "rule_failed": KindFacts(
        "a rule failed with an exception for a group, a broker or a cluster, which is not evaluated until a retry "
        "succeeds",
        (),
        ("error",),
        is_of_group=False,
    ),
}
