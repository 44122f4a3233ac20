"""What one member subscribes, as its heartbeats tell it: once for the event, once as the broker reads it."""

from typing import Any

from streaming.simulator import parts
from streaming.simulator.node import Beat
from udfs.rocketmq.consumer_manager import SubscriptionData
from udfs.rocketmq.offset_store import RETRY_GROUP_TOPIC_PREFIX


class SubscriptionTable:
    """Topic to sub_version, and ConsumerData made of it."""

    def __init__(self, group: parts.Group, of: parts.Consumer, now_ms: int) -> None:
        self.sub_versions: dict[str, int] = dict.fromkeys(group.topics_of(of), now_ms)
        self._group = group
        self._of = of
        self._strategy = of.strategy or group.strategy
        self.beat: Beat
        self.consumer_data: dict[str, Any]
        self.consumer_data_without_sub: dict[str, Any]
        self.renew()

    def renew(self) -> None:
        """`sub_versions` changed."""
        group, of = self._group, self._of
        versions = dict(self.sub_versions)
        if group.reports_retry_topic and versions:
            versions[f"{RETRY_GROUP_TOPIC_PREFIX}{group.consumer_group}"] = min(versions.values())
        datas = tuple(
            SubscriptionData(topic, "*" if topic.startswith(RETRY_GROUP_TOPIC_PREFIX) else of.sub_string, version)
            for topic, version in versions.items()
        )
        is_active = group.pull_consumers or bool(of.assigned_queues)
        consume_type = "CONSUME_ACTIVELY" if is_active else "CONSUME_PASSIVELY"
        if not group.client_rebalance:
            consume_type = "CONSUME_POP"
        self.beat = Beat(group.consumer_group, consume_type, group.message_model, datas)
        self.consumer_data = {
            "consumer_group": group.consumer_group,
            "consume_type": consume_type,
            "message_model": group.message_model,
            "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
            "subscriptions": [_reported(data) for data in datas],
        }
        if not group.client_rebalance:
            self.consumer_data["client_rebalance"] = False
        elif of.reports_strategy and not of.assigned_queues:
            self.consumer_data["strategy"] = self._strategy
        if group.consume_orderly:
            self.consumer_data["consume_orderly"] = True
        self.consumer_data_without_sub = {**self.consumer_data, "subscriptions": []}


def _reported(data: SubscriptionData) -> dict[str, Any]:
    return {
        "topic": data.topic,
        "sub_string": data.sub_string,
        "sub_version": data.sub_version,
        "expression_type": data.expression_type,
    }
