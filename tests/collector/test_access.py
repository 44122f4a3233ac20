"""What brokers' refusals mean, by what real brokers of 4.9.7 and 5.5.0 say."""

import pytest

from conf.settings import Settings
from streaming.collector.access import are_keys_refused, explain_refusal, is_refused, without_keys
from streaming.collector.rocketmq_jvm import RocketMQError

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
