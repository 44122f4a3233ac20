"""Which alerts, of consumers' side and of producers', tell of one trouble."""

import pytest

from udfs.broker_trouble import trouble_of


@pytest.mark.parametrize(
    ("kind", "cause", "is_gone"),
    [
        ("unheard_broker", "not_answering", True),
        ("masterless_broker", "no_master", True),
        ("broker_isolated", "failing_broker", True),
        ("broker_isolated", "slow_broker", False),
        ("no_available_broker", "all_brokers", False),
        ("starved_queue", "order_lock", False),
    ],
)
def test_a_broker_that_is_gone_is_one_trouble_whoever_tells_it(kind: str, cause: str, is_gone: bool) -> None:
    assert trouble_of(kind, cause, "c", "b") == (("c", "b") if is_gone else None)


def test_an_alert_of_no_broker_is_no_brokers_trouble() -> None:
    assert trouble_of("unheard_broker", None, "c", None) is None
