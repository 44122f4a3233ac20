"""What a heartbeat reports of filters, compared as a broker compares it."""

import pytest

from tests.udfs.groups.facts import ConsumerData, Subscription
from udfs.rocketmq.heartbeat import filters_of


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("TagA", "TAG TagA"),
        (" TagB ||TagA|| TagB || ", "TAG TagA || TagB"),
        ("*", None),
        ("", None),
    ],
)
def test_tags_are_a_set_whatever_their_order_and_blanks(expression: str, expected: str | None) -> None:
    assert filters_of(ConsumerData((Subscription("orders", expression),))).get("orders") == expected


def test_an_sql_expression_is_compared_as_it_is_written() -> None:
    consumer = ConsumerData((Subscription("orders", "b > 1 || a", "SQL92"),))
    assert filters_of(consumer) == {"orders": "SQL92 b > 1 || a"}
