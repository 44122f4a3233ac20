"""When data_quality opens, what it says, and when it ends."""

import json
from typing import Any

import pytest

from conf.settings import Settings
from schemas.events import PULLS
from schemas.expectations import Between, InSet, Severity
from schemas.suites import CONTRACT
from schemas.tables import ALERTS
from streaming.quality.inspection import outcome_of
from streaming.quality.inspector import QualityAlerts
from streaming.relay.notice import read_notice
from streaming.warehouse.rows import arrow_table
from udfs.alerts.self_kinds import DATA_QUALITY, LIMITS

MINUTE = 60_000
START_MS = 1_750_000_000_000
QUALITY = Settings.load().quality

KNOWN = InSet(column="queue", values=("known",), mostly=0.95, why="")
SLOW = Between(column="behind_ms", maximum=5, why="", severity=Severity.WARNING)


def contract(quarantined: int) -> dict[str, Any]:
    return outcome_of(PULLS, CONTRACT, not quarantined, 1_000, quarantined)


ALL = contract(0)


def outcome(unexpected: int, expectation: InSet | Between = KNOWN) -> dict[str, Any]:
    success = (1_000 - unexpected) / 1_000 >= expectation.mostly
    return outcome_of(PULLS, expectation, success, 1_000, unexpected, {f"{PULLS}-0@17": "unknown_queue"})


class Looks:
    """One topic, looked at every minute."""

    def __init__(self) -> None:
        self.alerts, self.now_ms = QualityAlerts(QUALITY), START_MS

    def see(
        self, unexpected: int, kept: dict[str, Any] = ALL, expectation: InSet | Between = KNOWN
    ) -> list[dict[str, Any]]:
        self.now_ms += MINUTE
        return self.alerts.judge(PULLS, [kept, outcome(unexpected, expectation)], self.now_ms)


def states(looks: Looks, seen: list[int]) -> list[str]:
    return ["".join(row["state"] for row in looks.see(unexpected)) for unexpected in seen]


@pytest.mark.parametrize(
    ("seen", "reported"),
    [
        ([0, 0, 0, 0], ["", "", "", ""]),
        ([200, 200, 200, 200], ["", "", "FIRING", ""]),
        ([200, 200, 0, 200, 200], ["", "", "", "", ""]),
        ([200, 200, 200, 0, 0, 0], ["", "", "FIRING", "", "", "RESOLVED"]),
        ([200, 200, 200, 0, 0, 200, 0, 0, 0], ["", "", "FIRING", "", "", "", "", "", "RESOLVED"]),
        ([40, 40, 40, 40], ["", "", "", ""]),
    ],
    ids=["well", "three bad looks", "a good one between", "three good looks", "a bad one between", "tolerated"],
)
def test_it_opens_and_ends_by_three_looks_in_a_row(seen: list[int], reported: list[str]) -> None:
    assert states(Looks(), seen) == reported


def test_a_warning_opens_nothing() -> None:
    looks = Looks()
    assert [looks.see(900, ALL, SLOW) for _ in range(10)] == [[]] * 10


@pytest.mark.parametrize(("quarantined", "opens"), [(9, False), (11, True)])
def test_the_share_of_quarantined_messages_counts_too(quarantined: int, opens: bool) -> None:
    looks = Looks()
    rows = [row for _ in range(3) for row in looks.see(0, contract(quarantined))]
    assert bool(rows) is opens
    if opens:
        assert "11 of 1,000 fail: contract is kept." in rows[0]["summary"]
        assert rows[0]["advice"].endswith("`balancewatch quarantine --topic rocketmq.pulls` lists the reasons.")


def test_between_half_the_threshold_and_the_threshold_nothing_changes() -> None:
    """Hysteresis: 0.8 % is no reason to open it, and none to end it."""
    looks = Looks()
    assert not [row for _ in range(9) for row in looks.see(0, contract(8))]
    assert [row["state"] for _ in range(3) for row in looks.see(0, contract(20))] == ["FIRING"]
    assert not [row for _ in range(9) for row in looks.see(0, contract(8))]
    assert [row["state"] for _ in range(3) for row in looks.see(0, contract(4))] == ["RESOLVED"]


def test_its_row_says_what_where_and_what_to_do_and_the_relay_can_read_it() -> None:
    looks = Looks()
    row = next(row for _ in range(3) for row in looks.see(200))
    assert (row["kind"], row["severity"], row["topic"], row["cluster"]) == (
        DATA_QUALITY,
        "error",
        PULLS,
        "balancewatch",
    )
    assert "200 of 1,000 fail: queue is known in at least 95% of the rows (found unknown_queue)" in row["summary"]
    assert "\n" not in row["advice"]
    failed = json.loads(row["evidence"])["failed"][0]
    assert (failed["expectation"], failed["sample_offsets"]) == ("queue in set", [f"{PULLS}-0@17"])
    stored = arrow_table([row], ALERTS, 1).to_pylist()[0]
    assert read_notice(stored).kind == DATA_QUALITY


def test_another_failing_expectation_is_reported_in_the_same_incident() -> None:
    looks = Looks()
    opened = next(row for _ in range(3) for row in looks.see(200))
    other = InSet(column="contract", values=("kept",), why="")
    looks.now_ms += MINUTE
    again = looks.alerts.judge(PULLS, [ALL, outcome(200), outcome(300, other)], looks.now_ms)
    assert [(row["state"], row["incident_id"]) for row in again] == [("FIRING", opened["incident_id"])]
    assert "contract is kept" in again[0]["summary"]
    assert looks.see(200) == []


def test_a_topic_that_falls_silent_ends_it_after_an_hour() -> None:
    looks = Looks()
    assert [row for _ in range(3) for row in looks.see(200)]
    assert looks.alerts.rest(PULLS, looks.now_ms + LIMITS.topic_quiet_ms - 1) == []
    assert [row["state"] for row in looks.alerts.rest(PULLS, looks.now_ms + LIMITS.topic_quiet_ms)] == ["RESOLVED"]
    assert looks.alerts.rest(PULLS, looks.now_ms + 2 * LIMITS.topic_quiet_ms) == []
