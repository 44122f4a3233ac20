"""What holds of every receiver: it never raises, says RETRY while nothing is certain, and works from any thread."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from streaming.relay.receivers.alertmanager import Alertmanager
from streaming.relay.receivers.chat import DingTalk, Feishu
from streaming.relay.receivers.pagerduty import PagerDuty
from streaming.relay.receivers.posting import Receiver
from streaming.relay.receivers.webhook import Webhook
from tests.relay.fakes import Behaviour, FakeServer, Half, Hang, Reply, Reset
from tests.relay.notices import NOW_MS, notice, notices
from tests.relay.vendors import ROUTING_KEY, FakeDingTalk, FakeFeishu, FakePagerDuty, FakeWebhook
from tests.support.rocketmq_server import wait_for

PATIENT, HASTY = 10.0, 0.2
"""Time-outs, seconds: on a busy machine an answer may come after the short one, too."""

Pair = tuple[Receiver, FakeServer]

PAIRS: dict[str, tuple[type[FakeServer], Callable[[str, float], Receiver]]] = {
    "alertmanager": (
        FakeServer,
        lambda url, seconds: Alertmanager("am", url, lease_seconds=240, timeout_seconds=seconds),
    ),
    "pagerduty": (
        FakePagerDuty,
        lambda url, seconds: PagerDuty("pager", url, secret=ROUTING_KEY, timeout_seconds=seconds),
    ),
    "webhook": (FakeWebhook, lambda url, seconds: Webhook("hook", url, timeout_seconds=seconds)),
    "dingtalk": (FakeDingTalk, lambda url, seconds: DingTalk("ding", url, timeout_seconds=seconds)),
    "feishu": (FakeFeishu, lambda url, seconds: Feishu("fei", url, timeout_seconds=seconds)),
}


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    fake, make = PAIRS[request.param]
    with fake() as vendor, closing(make(vendor.url, PATIENT)) as receiver:
        if request.param == "alertmanager":  # its first request asks for the clock
            receiver.send([], NOW_MS)
            vendor.received.clear()
        yield receiver, vendor


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_not_answered_in_time_is_notified_again_and_arrives(name: str) -> None:
    fake, make = PAIRS[name]
    with fake() as vendor, closing(make(vendor.url, HASTY)) as receiver:
        vendor.script(Hang())
        assert receiver.send([notice()], NOW_MS).verdict == "RETRY"
        wait_for("the next is delivered", lambda: receiver.send([notice()], NOW_MS).verdict == "DELIVERED")


@pytest.mark.parametrize("behaviour", [Reply(500), Reply(429), Reset(), Half(500)], ids=repr)
def test_what_may_not_have_arrived_is_notified_again_and_arrives(pair: Pair, behaviour: Behaviour) -> None:
    receiver, vendor = pair
    vendor.script(behaviour)
    assert [receiver.send([notice()], NOW_MS).verdict for _ in range(2)] == ["RETRY", "DELIVERED"]


@pytest.mark.parametrize("code", [401, 403])
def test_a_key_that_is_not_known_is_notified_from_a_bad_message(pair: Pair, code: int) -> None:
    receiver, vendor = pair
    vendor.script(Reply(code), Reply(404))
    assert [receiver.send([notice()], NOW_MS).verdict for _ in range(2)] == ["BAD_KEY", "REFUSED"]


def test_as_many_as_it_takes_are_one_request(pair: Pair) -> None:
    receiver, vendor = pair
    assert receiver.send(notices(receiver.traits.at_most), NOW_MS).verdict == "DELIVERED"
    assert len(vendor.received) == 1


def test_it_may_be_sent_from_several_threads_and_closed_from_another(pair: Pair) -> None:
    receiver, vendor = pair
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda number: receiver.send([notice(number)], NOW_MS), range(12)))
    assert {answer.verdict for answer in answers} == {"DELIVERED"}
    assert len(vendor.received) == 12


def test_names_of_any_script_and_broken_ones_arrive(pair: Pair) -> None:
    receiver, _ = pair
    odd = "订单 \ud83d\x00\u2028</at>"
    notified = notice(topic=odd, summary=odd, advice=odd, cause=odd, queues=(odd,), evidence={odd: float("inf")})
    assert receiver.send([notified], NOW_MS).verdict == "DELIVERED"
