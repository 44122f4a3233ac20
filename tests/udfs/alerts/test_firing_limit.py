"""The limit: the order of severities, and the alert for the rest."""

import pytest

from udfs.alerts.firing_limit import SEVERITIES, describe_more, rank_of


def test_a_severity_nobody_knows_comes_last() -> None:
    assert [rank_of(severity) for severity in (*SEVERITIES, "odd")] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("number", "words"), [(1, "1 more starved_queue is"), (900, "900 more starved_queue are")])
def test_the_alert_for_the_rest_counts_them_and_names_the_command_that_lists_them(number: int, words: str) -> None:
    summary, advice = map(str, describe_more("starved_queue", "prod", number, 100))
    assert summary.startswith(words)
    assert "above the limit of 100" in summary
    assert advice == "balancewatch alerts --current --state FIRING --kind starved_queue --cluster prod"
