"""The admin client: its JVM, its limit on requests, and the refusals of real brokers of 4.9.7 and 5.5.0."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from conf.settings import Settings
from streaming.collector import rocketmq_admin
from streaming.collector.access import are_keys_refused, explain_refusal, is_refused, without_keys
from streaming.collector.known_brokers import CollectorError
from streaming.collector.rocketmq_admin import BURST_SECONDS, RequestRate, RocketMQAdmin
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(({half: "s3cret"}, "set both, or neither") for half in ("acl_access_key", "acl_secret_key")),
        *(({half: "s3cret"}, "set both, or neither") for half in ("tls_certificate", "tls_key")),
        ({"tls_ca": "none.pem"}, "collector.tls_ca = 'none.pem': file not found"),
        ({"tls_certificate": "a.pem", "tls_key": "b.pem"}, "collector.tls_certificate = 'a.pem': file not found"),
    ],
)
def test_half_a_pair_and_files_that_are_not_there_are_refused_without_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], said: str
) -> None:
    monkeypatch.setattr(rocketmq_admin, "RocketMQJvm", Mock())
    with pytest.raises(CollectorError, match=said) as refused:
        RocketMQAdmin(Settings.load(collector={"tls": True, **given}).collector, tmp_path)
    assert "s3cret" not in str(refused.value)


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


class Sleeper:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.asked: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def ask(self, rate: RequestRate, server: str, times: int) -> None:
        for _ in range(times):
            rate.wait(server)
            self.asked.append(self.now)


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    sleeper = Sleeper()
    monkeypatch.setattr(rocketmq_admin, "time", sleeper)
    return sleeper


@pytest.mark.parametrize("per_second", [10, 500, 3_333])
def test_no_second_has_more_questions_than_the_bound_and_its_burst(sleeper: Sleeper, per_second: int) -> None:
    rate = RequestRate(per_second)
    sleeper.ask(rate, "broker-a", per_second * 3)
    allowed = per_second * (1 + BURST_SECONDS) + 1
    assert (
        max(sum(at <= other < at + 1 for other in sleeper.asked) for at in sleeper.asked[:: per_second // 10])
        <= allowed
    )
    assert sleeper.asked[-1] - sleeper.asked[0] == pytest.approx(3, abs=0.3)


def test_who_asks_slower_never_waits_and_a_pause_saves_up_no_more_than_a_burst(sleeper: Sleeper) -> None:
    rate = RequestRate(100)
    for _ in range(20):
        sleeper.ask(rate, "broker-a", 1)
        sleeper.now += 0.02
    assert all(later - at == pytest.approx(0.02) for at, later in pairwise(sleeper.asked))
    sleeper.now += 3_600
    began = sleeper.now
    sleeper.ask(rate, "broker-a", 111)
    assert sleeper.now - began == pytest.approx(1.0)


def test_one_server_does_not_wait_for_another(sleeper: Sleeper) -> None:
    rate = RequestRate(10)
    sleeper.ask(rate, "broker-a", 30)
    began = sleeper.now
    sleeper.ask(rate, "broker-b", 1)
    assert sleeper.now == began


def test_what_was_asked_and_held_back_is_counted_once(sleeper: Sleeper) -> None:
    rate = RequestRate(10)
    sleeper.ask(rate, "broker-a", 5)
    sleeper.ask(rate, "name server", 1)
    assert rate.take_counts() == ({"broker-a": 5, "name server": 1}, {"broker-a": 3})
    assert rate.take_counts() == ({}, {})


ACL_4 = (
    "MQBrokerException: CODE: 1  DESC: org.apache.rocketmq.acl.common.AclException: {}, "
    "org.apache.rocketmq.acl.plain.PlainPermissionManager.validate(PlainPermissionManager.java:683) "
    "BROKER: 127.0.0.1:47773"
)
ACL_5 = "MQBrokerException: CODE: 16  DESC: {} BROKER: 127.0.0.1:37359"

KEYS = {"acl_access_key": "watcher", "acl_secret_key": "s3cret-of-ours"}


@pytest.mark.parametrize(
    ("code", "said", "refused", "by_keys"),
    [
        (16, ACL_5.format("check signature failed."), True, True),
        (16, ACL_5.format("User:watcher is not found."), True, True),
        (16, ACL_5.format("username cannot be null."), True, True),
        (16, ACL_5.format("User:watcher has no permission to access Group:g from 127.0.0.1."), True, False),
        (1, ACL_4.format("Check signature failed for accessKey=watcher"), True, True),
        (1, ACL_4.format("No acl config for watcher"), True, True),
        (1, ACL_4.format("No accessKey is configured"), True, True),
        (1, ACL_4.format("Need admin permission for request code=17, but accessKey=watcher is not"), True, False),
        (1, ACL_4.format("No default permission for topic"), True, False),
        (1, "MQClientException: CODE: 1  DESC: The Consumer <g> <x> not online", False, False),
        (None, "RemotingTimeoutException", False, False),
    ],
)
def test_a_refusal_is_of_the_keys_or_of_a_right(code: int | None, said: str, *, refused: bool, by_keys: bool) -> None:
    error = RocketMQError(said, code)
    assert (is_refused(error), are_keys_refused(error)) == (refused, by_keys)


def test_a_refusal_is_one_sentence_with_the_brokers_own_words_and_without_keys() -> None:
    settings = Settings.load(collector=KEYS).collector
    said = without_keys(settings, ACL_4.format("Check signature failed for accessKey=watcher"))
    sentence = explain_refusal(settings, RocketMQError(said, 1))
    assert '("Check signature failed for accessKey=(collector.acl_access_key)")' in sentence
    assert "BALANCEWATCH_COLLECTOR__ACL_SECRET_KEY" in sentence
    assert "watcher" not in sentence


def test_no_key_is_printed_and_no_word_that_only_holds_one_is_cut() -> None:
    settings = Settings.load(collector=KEYS).collector
    said = without_keys(settings, "User:watcher of birdwatchers has s3cret-of-ours")
    assert said == "User:(collector.acl_access_key) of birdwatchers has (collector.acl_access_key)"
