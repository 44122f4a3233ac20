"""MQFaultStrategy by release: the two tables edge by edge, then overwriting against extending."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.offenders import assert_none
from udfs.rocketmq.fault import (
    RULES,
    FaultItem,
    compute_not_available_duration,
    is_available,
    pick_one_at_least,
    update_fault_item,
)
from udfs.rocketmq.version import NEWEST, ClientVersion, parse_client_version

OLD: ClientVersion = (5, 1, 3)
EVICTS: ClientVersion = (5, 1, 4)
NOW = 1_700_000_000_000

releases = st.sampled_from([(4, 0, 0), (4, 7, 1), (4, 9, 8), (5, 1, 0), OLD, EVICTS, (5, 2, 0), (5, 3, 3), NEWEST])
latencies = st.integers(0, 20_000)
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


@given(releases, latencies, st.booleans(), st.booleans())
def test_a_release_may_be_given_as_text(
    version: ClientVersion, latency_ms: int, isolation: bool, reachable: bool
) -> None:
    dotted, tagged = ".".join(map(str, version)), "V" + "_".join(map(str, version))
    items = [
        update_fault_item(None, "broker-a", latency_ms, isolation, reachable, NOW, text)
        for text in (version, dotted, tagged)
    ]
    assert items[0] == items[1] == items[2]
    assert compute_not_available_duration(latency_ms, tagged) == compute_not_available_duration(latency_ms, version)
    assert is_available(items[0], NOW, dotted) == is_available(items[0], NOW, version)


@given(releases)
def test_a_broker_nothing_is_remembered_of_is_available(version: ClientVersion) -> None:
    assert is_available(None, NOW, version)


def by_latency(*latencies_ms: int) -> list[FaultItem]:
    return [FaultItem(f"broker-{latency_ms}", latency_ms, 0) for latency_ms in latencies_ms]


@pytest.mark.parametrize(
    ("latencies_ms", "index", "picked"),
    [
        ((), 0, None),
        ((9,), 5, "broker-9"),
        ((9, 3), 5, "broker-3"),
        ((9, 3, 5), 5, "broker-3"),
        ((9, 3, 5, 7), 4, "broker-3"),
        ((9, 3, 5, 7), 5, "broker-5"),
        ((9, 3, 5, 7, 8), 5, "broker-5"),
    ],
)
def test_up_to_5_1_3_pick_one_at_least_takes_turns_over_the_better_half(
    latencies_ms: tuple[int, ...], index: int, picked: str | None
) -> None:
    versions: list[ClientVersion] = [(4, 0, 0), (4, 9, 3), (4, 9, 4), OLD]
    found = {version: pick_one_at_least(by_latency(*latencies_ms), NOW, version, index) for version in versions}
    assert found == dict.fromkeys(versions, picked)


def test_from_5_1_4_pick_one_at_least_takes_the_first_reachable_whatever_its_latency() -> None:
    lost, slow, quick = FaultItem("lost", 1, 0, False), FaultItem("slow", 9, NOW + 1), FaultItem("quick", 1, 0)
    assert pick_one_at_least([lost, slow, quick], NOW, EVICTS, 7) == "slow"
    assert pick_one_at_least([lost], NOW, NEWEST) is None


def test_every_release_follows_one_row() -> None:
    assert [rules.since for rules in RULES] == sorted(rules.since for rules in RULES)
    for rules in RULES:
        table = rules.latency_table
        assert list(table.latency_max_ms) == sorted(table.latency_max_ms)
        assert len(table.latency_max_ms) == len(table.not_available_duration_ms)
    assert [rules.latency_table.isolation_latency_ms for rules in RULES] == [30_000, 10_000, 10_000]
