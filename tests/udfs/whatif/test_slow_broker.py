"""Where sends go while a broker is slow: figures of the fault tables, release by release, and what always holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from udfs.rocketmq.route import QueueData
from udfs.rocketmq.topic_publish_info import TopicPublishInfo, to_topic_publish_info
from udfs.rocketmq.version import ClientVersion
from udfs.whatif.slow_broker import Sends, Traffic, play_sends

BROKERS = ("broker-a", "broker-b")
RELEASES: list[ClientVersion] = [(4, 7, 1), (4, 9, 8), (5, 1, 0), (5, 1, 4), (5, 5, 0)]


def topic_of(*numbers: int) -> TopicPublishInfo:
    datas = [QueueData(f"broker-{'abcdef'[place]}", number, number, 6) for place, number in enumerate(numbers)]
    return to_topic_publish_info("orders", datas, {data.broker_name for data in datas})


def play(latency_ms: int, release: ClientVersion, **traffic: object) -> Sends:
    return play_sends(topic_of(4, 4), {"broker-a": latency_ms}, Traffic(client_version=release, **traffic))  # type: ignore[arg-type]  # fields of Traffic


@pytest.mark.parametrize("release", RELEASES)
def test_healthy_brokers_are_sent_by_the_number_of_their_queues(release: ClientVersion) -> None:
    sends = play_sends(topic_of(6, 2), {}, Traffic(client_version=release, seconds=8))
    assert sends.tries == {"broker-a": 600, "broker-b": 200}
    assert (sends.slow, sends.failed, sends.avoided_ms) == (0, 0, ())
    assert sends.share("broker-a") == 0.75
    assert sends.share("broker-z") == 0


@pytest.mark.parametrize(
    ("release", "latency_ms", "span"),
    [
        # Two sends a second, in turn to broker-b (from 0 ms) and broker-a (from 500 ms).
        ((4, 9, 8), 549, None),
        ((4, 9, 8), 550, (1_050, 31_050)),
        ((4, 9, 8), 2_000, (2_500, 123_500)),  # the send of 1,500 ms, answered at 3,500 ms, has the last word
        ((4, 9, 8), 5_000, (3_501, 606_501)),  # times out after 3 s; so does the send of 3,500 ms
        ((5, 5, 0), 549, None),
        ((5, 5, 0), 550, (1_050, 3_050)),
        ((5, 5, 0), 1_799, (2_299, 5_299)),
        ((5, 5, 0), 1_800, (2_300, 8_300)),
        ((5, 5, 0), 5_000, (3_501, 16_501)),
    ],
)
def test_a_slow_broker_is_avoided_as_the_table_of_the_release_says(
    release: ClientVersion, latency_ms: int, span: tuple[int, int] | None
) -> None:
    traffic = Traffic(client_version=release, sends_per_second=2, seconds=700)
    sends = play_sends(topic_of(1, 1), {"broker-a": latency_ms}, traffic)
    assert next(iter(sends.avoided_ms), None) == span


def test_a_try_over_the_timeout_fails_the_send() -> None:
    """No time is left for a second try."""
    for release in RELEASES:
        sends = play(5_000, release)
        assert sends.failed == sends.slow == sends.tries["broker-a"] < 1_000
        assert play(2_999, release).failed == 0


@pytest.mark.parametrize("release", RELEASES)
def test_without_the_fault_strategy_nothing_is_avoided(release: ClientVersion) -> None:
    sends = play(800, release, send_latency_fault_enable=False)
    assert sends.tries == {"broker-a": 3000, "broker-b": 3000}
    assert (sends.slow, sends.avoided_ms) == (3000, ())


@pytest.mark.parametrize("release", RELEASES)
def test_a_topic_on_one_broker_has_nowhere_else_to_go(release: ClientVersion) -> None:
    sends = play_sends(topic_of(4), {"broker-a": 800}, Traffic(client_version=release, seconds=5))
    assert sends.tries == {"broker-a": 500}


def test_a_topic_without_a_queue_is_refused() -> None:
    with pytest.raises(ValueError, match="orders has no queue to send to"):
        play_sends(to_topic_publish_info("orders", [], set()), {}, Traffic())


@examples(25)
@given(
    st.sampled_from(RELEASES),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.integers(0, 4_000),
    st.integers(1, 40),
    st.booleans(),
)
def test_every_send_is_tried_and_spans_do_not_overlap(
    release: ClientVersion, numbers: list[int], latency_ms: int, rate: int, avoids: bool
) -> None:
    traffic = Traffic(avoids, release, sends_per_second=rate, seconds=20)
    sends = play_sends(topic_of(*numbers), {"broker-a": latency_ms}, traffic)
    assert sends.sends == rate * 20 <= sum(sends.tries.values())
    assert sends.failed <= sends.slow <= sends.tries.get("broker-a", 0)
    ends = [at_ms for span in sends.avoided_ms for at_ms in span]
    assert ends == sorted(ends)
    assert all(0 <= at_ms <= 20_000 for at_ms in ends)
    assert avoids or not ends
