"""RocketMQ's own consumer groups: MixAll (isPredefinedGroup, isSysConsumerGroup) and PopAckConstants, 4.x and 5.x."""

OWN_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
        "CID_DefaultHeartBeatSyncerTopic",
    }
)
"""Of admin tools, brokers and proxies: they are short-lived by design."""

REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
"""The group by which each 5.x broker reads its revive log (topic rmq_sys_REVIVE_LOG_<cluster>): checkpoints of what POP
consumers hold, and their acks."""


def is_own_group(consumer_group: str) -> bool:
    return consumer_group in OWN_GROUPS or consumer_group.startswith("CID_RMQ_SYS_")
