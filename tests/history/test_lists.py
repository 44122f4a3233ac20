"""`clusters`, `groups` and `brokers`: a line each, the worst first."""

from pathlib import Path

import pytest

from streaming.text.times import wall_ms
from tests.history.test_alerts_command import incident
from tests.history.warehouse_stage import START_MS, assignment, backlog, member, rows_of, run, write

HEALTH = {"cluster": "c", "broker_name": "broker-b", "unavailable_producers": 2, "producers": 3}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    now_ms = wall_ms()
    now = {"changed_at": now_ms - 5_000}
    of_broker = {"consumer_group": None, "topic": None, "broker_name": "broker-a,broker-b"}
    silent = {"kind": "broker_no_data", "consumer_group": None, "topic": None, "broker_name": "broker-c"}
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "alerts": [
                incident("a-1", "FIRING"),
                incident("b-1", "FIRING", kind="broker_isolated", **of_broker),
                incident("n-1", "PENDING", **silent, cluster="prod"),
            ],
            "assignments": [
                assignment(0, "UNOWNED", 0, **now),
                assignment(1, "OK", 0, **now),
                assignment(0, "OK", 0, consumer_group="audit", **now),
                assignment(0, "OK", 0, consumer_group="audit", cluster="prod", broker_name="broker-c", **now),
            ],
            "memberships": [member("A@1", "JOINED", 0)],
            "broker_health": [HEALTH | {"unavailable_until": now_ms + 30_000} | now],
        },
    )


def lines(warehouse: Path, *arguments: str) -> list[list[str]]:
    result = run(warehouse, *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return [line.split() for line in result.stdout.splitlines()[1:]]


def test_groups(warehouse: Path) -> None:
    assert lines(warehouse, "groups") == [
        ["c", "billing", "UNOWNED", "1", "1", "2", "1", "starved_queue"],
        ["c", "audit", "OK", "0", "0", "1", "0"],
        ["prod", "audit", "OK", "0", "0", "1", "0"],
    ]
    assert lines(warehouse, "groups", "--cluster", "p*", "--group", "audit") == [
        ["prod", "audit", "OK", "0", "0", "1", "0"]
    ]
    assert rows_of(warehouse, "groups", "--group", "bil*")[0]["incident_id"] == "a-1"


def test_a_groups_backlog_is_the_sum_of_its_queues_with_a_thousand_messages_or_more(tmp_path: Path) -> None:
    rows = [assignment(number, "OK", 0) for number in range(4)]
    write(
        tmp_path,
        {
            "alerts": [incident("a-1", "FIRING")],
            "assignments": [*rows, assignment(0, "OK", 0, consumer_group="audit")],
            "backlogs": [backlog(number, 50_000, 0) for number in range(4)],
        },
        {"backlogs": [backlog(0, 2_000, 60), backlog(1, 1_000, 70), backlog(2, 300, 80), backlog(3, None, 90)]},
    )
    assert [row["backlog"] for row in rows_of(tmp_path, "groups")] == [3_000, None]
    assert rows_of(tmp_path, "groups")[0]["backlog_changed_ms"] == START_MS + 70_000
    text = run(tmp_path, "groups").stdout.splitlines()
    assert "backlog" in text[0]
    assert text[1].split()[-2:] == ["3000", "starved_queue"]
    huge = [backlog(number, 2**63 - 1, 100) for number in range(2)]
    write(tmp_path / "huge", {"alerts": [incident("a-1", "FIRING")], "assignments": rows, "backlogs": huge})
    assert rows_of(tmp_path / "huge", "groups")[0]["backlog"] == 2**63 - 1


def test_brokers(warehouse: Path) -> None:
    found = lines(warehouse, "brokers")
    assert found[0][:6] == ["c", "broker-b", "AVOIDED", "1", "2", "3"]
    assert found[1:] == [
        ["c", "broker-a", "OK", "1", "0", "0", "broker_isolated"],
        ["prod", "broker-c", "NO_DATA", "0", "0", "0"],
    ]
    assert [row["kind"] for row in rows_of(warehouse, "brokers", "--broker", "broker-[ab]")] == ["broker_isolated"] * 2


def test_clusters(warehouse: Path) -> None:
    found = lines(warehouse, "clusters")
    assert [row[:6] for row in found] == [["c", "OK", "2", "2", "2", "3"], ["prod", "NO_DATA", "0", "1", "1", "1"]]
    assert found[1][-1] == "broker-c"


def test_a_name_that_is_near_is_noted(warehouse: Path) -> None:
    result = run(warehouse, "groups", "--group", "biling")
    assert (result.exit_code, result.stdout) == (0, "Nothing matches.\n")
    assert result.stderr == "note: no such group: 'biling'; nearest: billing\n"
