"""What each kind of alert rests on: the thresholds of its rule, the severities it may have, the kinds that explain it.

For people who ask what an alert would do; the rules themselves do not read it. tests/udfs/alerts/test_kinds.py holds it
against them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

NO_MASTER = ("broker_without_master",)
"""Explains only what needs a master: slaves still serve reads."""

ABOVE_GROUPS = ("cluster_no_data", "broker_no_data", "cluster_name_conflict")
"""What is wrong with a broker, or with all of them, explains most of what goes wrong in the groups."""

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
"""Why nobody consumes a queue, the strongest first: udfs.groups.diagnosis.CAUSES."""


@dataclass(frozen=True)
class KindFacts:
    """`holds_when` ends the sentence "It is seen to hold when ...".

    thresholds     keys of Rules that decide whether and since when it holds; the longest that applies counts
    severities     what its rule says, by cause; KindRules.severity replaces them
    inhibited_by   kinds whose open incident inhibits it
    causes         what its incidents may name as their cause, where it is not always the kind itself
    is_of_group    judged for one consumer group; otherwise for a cluster's brokers
    """

    holds_when: str
    thresholds: tuple[str, ...]
    severities: tuple[str, ...]
    inhibited_by: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    is_of_group: bool = True


KIND_FACTS: Mapping[str, KindFacts] = {
    "starved_queue": KindFacts(
        "nobody has pulled a queue for pull_silence_ms and its cause is certain: settle_ms after the last change of "
        "members or routes, a frozen owner's heartbeat is heartbeat_late_ms old, or an owner that lives has not pulled "
        "for 120 s; or its commit has stood still for consume_silence_ms and a minute while messages wait",
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
        "two channels carry one ClientId and each has sent a heartbeat after the other appeared",
        ("channel_expired_ms", "heartbeat_late_ms"),
        ("critical", "warning"),
    ),
    "group_offline": KindFacts(
        "a group that consumed has had no member for settle_ms",
        ("channel_expired_ms", "settle_ms"),
        ("warning",),
        ABOVE_GROUPS,
    ),
    "split_view": KindFacts(
        "brokers have listed different members for settle_ms; at once where a client falls silent at one broker only",
        ("settle_ms", "heartbeat_late_ms", "channel_expired_ms"),
        ("critical", "warning"),
        ABOVE_GROUPS,
    ),
    "stalled_queue": KindFacts(
        "a queue's owner has not pulled it for settle_ms, or not consumed it for consume_silence_ms, and the cause is "
        "not certain yet",
        ("pull_silence_ms", "settle_ms", "consume_silence_ms"),
        ("warning",),
        ("starved_queue", *ABOVE_GROUPS, *NO_MASTER),
        causes=OF_QUEUES,
    ),
    "double_consumed_queue": KindFacts(
        "two clients have pulled a queue side by side for longer than a change of members or routes takes",
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
        "a slave has served pulls for 30 s; a warning where the master is down",
        (),
        ("warning", "info"),
        (*ABOVE_GROUPS, *NO_MASTER),
        causes=("master_down", "master_busy"),
    ),
    "offset_regression": KindFacts(
        "committed offsets fell back; a warning from offset_regression_messages on",
        ("offset_regression_messages",),
        ("warning", "info"),
        ABOVE_GROUPS,
    ),
    "order_at_risk": KindFacts(
        "an ordered topic has lacked a broker, a master or queues for 30 s",
        (),
        ("warning",),
        (*ABOVE_GROUPS, *NO_MASTER),
        causes=("broker_down", "master_down", "queues_lost"),
    ),
    "client_id_at_risk": KindFacts(
        "ClientIds have differed by luck only for settle_ms",
        ("settle_ms",),
        ("info",),
        ("duplicate_client_id",),
    ),
    "broker_isolated": KindFacts(
        "a share of broker_isolated_share of a broker's producers has avoided it for broker_isolated_hold_ms; breaks "
        "shorter than broker_isolated_clear_ms end nothing",
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
        "a 5.1.4 producer keeps a broker out broker_evicted_ms past its time",
        ("broker_evicted_ms", "fault_item_idle_ms"),
        ("error",),
        causes=("permanent_eviction",),
        is_of_group=False,
    ),
    "no_available_broker": KindFacts(
        "a producer has shut out all of its brokers at once, for broker_isolated_hold_ms; not one whose sends arrive "
        "and were all as slow for a day",
        ("broker_isolated_hold_ms", "broker_isolated_clear_ms", "fault_item_idle_ms"),
        ("critical", "warning"),
        causes=("all_brokers", "producer_host"),
        is_of_group=False,
    ),
    "cluster_no_data": KindFacts(
        "less than completeness_min of a cluster's brokers gave data: noted after no_data_ms, paged after "
        "no_data_page_ms",
        ("completeness_min", "no_data_ms", "no_data_page_ms", "heartbeat_late_ms"),
        ("error",),
        causes=("not_answering", "collector_silent", "nothing_arrives", "no_clock", "events_dropped", "pulls_missing"),
        is_of_group=False,
    ),
    "broker_no_data": KindFacts(
        "a broker does not answer, or its clients reach all but it: noted after no_data_ms, paged after "
        "no_data_page_ms",
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
        "a cluster's rounds come, or are meant to come, more than 30 s apart; noted from the third on",
        (),
        ("warning",),
        causes=("slow_rounds",),
        is_of_group=False,
    ),
    "name_server_unreachable": KindFacts(
        "a NameServer of collector.name_server has not answered any collector for two rounds; a warning while another "
        "NameServer answers",
        (),
        ("error", "warning"),
        causes=("some_unreachable", "all_unreachable"),
        is_of_group=False,
    ),
    "cluster_name_conflict": KindFacts(
        "two collectors have got answers from brokers of the same names at other addresses for 30 s",
        (),
        ("error",),
        causes=("two_clusters",),
        is_of_group=False,
    ),
    "clock_skew": KindFacts(
        "a clock is more than 10 s off Kafka's and stays so for half a minute; at once where a clock event is a minute "
        "ahead",
        (),
        ("warning",),
        causes=("clock_ahead", "clock_out_of_step"),
        is_of_group=False,
    ),
    "rule_failed": KindFacts(
        "a rule raised an exception at a group, a broker or a cluster, which is not judged meanwhile",
        (),
        ("error",),
        is_of_group=False,
    ),
}
