"""MQFaultStrategy by release: the two tables edge by edge, then what isolates a broker.

tests/lab/oracle/test_fault.py plays updates, order and choice of items against RocketMQ.
"""

import pytest

from tests.support.offenders import assert_none
from udfs.rocketmq.fault import RULES, compute_not_available_duration, is_available, update_fault_item
from udfs.rocketmq.version import NEWEST, ClientVersion, parse_client_version

OLD: ClientVersion = (5, 1, 3)
EVICTS: ClientVersion = (5, 1, 4)
NOW = 1_700_000_000_000

UP_TO_5_1_3 = {
    0: 0, 49: 0, 50: 0, 549: 0, 550: 30_000, 999: 30_000, 1000: 60_000, 1999: 60_000, 2000: 120_000, 2999: 120_000,
    3000: 180_000, 14_999: 180_000, 15_000: 600_000, 10**9: 600_000,
}  # fmt: skip
FROM_5_1_4 = {
    0: 0, 49: 0, 50: 0, 549: 0, 550: 2_000, 1799: 2_000, 1800: 5_000, 2999: 5_000, 3000: 6_000, 4999: 6_000,
    5000: 10_000, 14_999: 10_000, 15_000: 30_000, 10**9: 30_000,
}  # fmt: skip
"""A latency in ms, at both sides of each edge, to the time that the broker is not available for."""


@pytest.mark.parametrize(
    ("table", "versions"),
    [
        pytest.param(UP_TO_5_1_3, ["4.0.0", "4.7.1", "4.9.8", "5.0.0", "5.1.0", "5.1.3"], id="up_to_5_1_3"),
        pytest.param(FROM_5_1_4, ["5.1.4", "5.2.0", "5.3.3", "5.5.0", "6.0.0"], id="from_5_1_4"),
    ],
)
def test_each_release_follows_its_table(table: dict[int, int], versions: list[str]) -> None:
    assert_none(
        f"{version}: {latency_ms} ms gives {found}, not {duration_ms}"
        for version in versions
        for latency_ms, duration_ms in table.items()
        if (found := compute_not_available_duration(latency_ms, parse_client_version(version))) != duration_ms
    )


@pytest.mark.parametrize(("version", "shut_out_ms"), [(OLD, 600_000), (EVICTS, 10_000), (NEWEST, 10_000)])
def test_isolation_counts_as_its_own_latency_and_keeps_the_real_one(version: ClientVersion, shut_out_ms: int) -> None:
    item = update_fault_item(None, "broker-a", 3, True, True, NOW, version)
    assert (item.current_latency_ms, item.start_timestamp_ms) == (3, NOW + shut_out_ms)


@pytest.mark.parametrize(("version", "available"), [(OLD, True), (EVICTS, False), ((5, 2, 0), True), (NEWEST, True)])
def test_only_5_1_4_shuts_an_unreachable_broker_out_for_ever(version: ClientVersion, available: bool) -> None:
    item = update_fault_item(None, "broker-a", 3, True, False, NOW, version)
    assert is_available(item, NOW + 10**9, version) is available


def test_every_release_follows_one_row() -> None:
    assert [rules.since for rules in RULES] == sorted(rules.since for rules in RULES)
    for rules in RULES:
        table = rules.latency_table
        assert list(table.latency_max_ms) == sorted(table.latency_max_ms)
        assert len(table.latency_max_ms) == len(table.not_available_duration_ms)
    assert [rules.latency_table.isolation_latency_ms for rules in RULES] == [30_000, 10_000, 10_000]
