"""The admin client and its JVM: its heap is the operator's setting, and a JVM whose heap is full ends."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conf.settings import Settings
from streaming.collector import rocketmq_admin
from streaming.collector.rocketmq_admin import RocketMQAdmin
from streaming.collector.rocketmq_jvm import RocketMQError, RocketMQJvm
from tests.collector.rounds import BROKER_A


def test_its_heap_is_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def start(_: Path, **options: Any) -> None:
        asked.update(options)
        raise RocketMQError("not in this test")

    monkeypatch.setattr(rocketmq_admin, "RocketMQJvm", start)
    with pytest.raises(RocketMQError, match="not in this test"):
        RocketMQAdmin(Settings.load(collector={"jvm_memory": "2g"}).collector, tmp_path)
    assert asked["heap"] == "2g"


def test_what_proxies_tell_each_other_is_rocketmqs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """RocketMQ's own checks of system names do not know it."""
    admin = object.__new__(RocketMQAdmin)
    clusters: dict[str, Any] = {"clusterAddrTable": {"c": []}, "brokerAddrTable": {}}
    answers = {"topics": {"topicList": ["DefaultHeartBeatSyncerTopic"]}, "clusters": clusters}
    monkeypatch.setattr(
        admin, "_ext", SimpleNamespace(fetchAllTopicList="topics", examineBrokerClusterInfo="clusters"), False
    )
    monkeypatch.setattr(admin, "_ask", lambda _, parse, question, *arguments: parse(answers[question]))
    assert admin.read_topics() == []
    groups = {"CID_DefaultHeartBeatSyncerTopic": {"consumeEnable": True}}
    monkeypatch.setattr(admin, "_ext", SimpleNamespace(getAllSubscriptionGroup="groups"), False)
    monkeypatch.setattr(admin, "_timeout_ms", 1, raising=False)
    answers["groups"] = {"subscriptionGroupTable": groups}
    assert admin.read_groups(BROKER_A) == {}


@pytest.mark.real
def test_a_full_heap_ends_it_with_the_setting_to_raise() -> None:
    with closing(RocketMQJvm(Settings.load().paths.jars, heap="32m")) as jvm:
        with pytest.raises(RocketMQError, match=r"ran out of memory; raise collector\.jvm_memory"):
            jvm.call(jvm.java.java.lang.StringBuilder, 1 << 30)
        assert not jvm.is_alive()
