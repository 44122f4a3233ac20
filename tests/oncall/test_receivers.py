"""What holds of every receiver: it never raises, says RETRY while nothing is certain, and works from any thread."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from streaming.oncall.alertmanager import Alertmanager
from streaming.oncall.dingtalk import DingTalk
from streaming.oncall.feishu import Feishu
from streaming.oncall.log_receiver import LogReceiver
from streaming.oncall.pagerduty import PagerDuty
from streaming.oncall.posting import TimeOuts
from streaming.oncall.receiver import Receiver
from streaming.oncall.webhook import Webhook
from tests.oncall.fakes import Behaviour, FakeServer, Half, Hang, Reply, Reset
from tests.oncall.notices import NOW_MS, notice, notices
from tests.oncall.vendors import ROUTING_KEY, FakeDingTalk, FakeFeishu, FakePagerDuty, FakeWebhook

SHORT = TimeOuts(connect=10.0, read=1.5, total=3.0)

Pair = tuple[Receiver, FakeServer]

PAIRS: dict[str, tuple[type[FakeServer], Callable[[str], Receiver]]] = {
    "alertmanager": (FakeServer, lambda url: Alertmanager("am", url, lease_seconds=240, time_outs=SHORT)),
    "pagerduty": (FakePagerDuty, lambda url: PagerDuty("pager", ROUTING_KEY, url=url, time_outs=SHORT)),
    "webhook": (FakeWebhook, lambda url: Webhook("hook", url, time_outs=SHORT)),
    "dingtalk": (FakeDingTalk, lambda url: DingTalk("ding", url, time_outs=SHORT)),
    "feishu": (FakeFeishu, lambda url: Feishu("fei", url, time_outs=SHORT)),
}


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    fake, make = PAIRS[request.param]
    with fake() as vendor, closing(make(vendor.url)) as receiver:
        yield receiver, vendor


@pytest.mark.parametrize("behaviour", [Reply(500), Reply(429), Hang(), Reset(), Half()], ids=repr)
def test_what_may_not_have_arrived_is_told_again_and_arrives(pair: Pair, behaviour: Behaviour) -> None:
    receiver, vendor = pair
    vendor.script(behaviour)
    assert [receiver.send([notice()], NOW_MS).verdict for _ in range(2)] == ["RETRY", "DELIVERED"]


@pytest.mark.parametrize("code", [401, 403])
def test_a_key_that_is_not_known_is_told_from_a_bad_message(pair: Pair, code: int) -> None:
    receiver, vendor = pair
    vendor.script(Reply(code), Reply(404))
    assert [receiver.send([notice()], NOW_MS).verdict for _ in range(2)] == ["BAD_KEY", "REFUSED"]


def test_as_many_as_it_takes_are_one_request(pair: Pair) -> None:
    receiver, vendor = pair
    assert receiver.send(notices(receiver.at_most), NOW_MS).verdict == "DELIVERED"
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
    told = notice(topic=odd, summary=odd, advice=odd, cause=odd, queues=(odd,), evidence={odd: float("inf")})
    assert receiver.send([told], NOW_MS).verdict == "DELIVERED"


def test_only_alertmanager_must_be_told_again_of_what_goes_on() -> None:
    with closing(Alertmanager("am", "http://127.0.0.1/", lease_seconds=240)) as replica:
        assert replica.is_leased
    assert not any(kind.is_leased for kind in (PagerDuty, Webhook, DingTalk, Feishu, LogReceiver))
