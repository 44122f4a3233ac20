"""Planned owner and actual consumers of a queue at a time, and the answer where data is missing."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.history.warehouse_stage import START_MS, alert, assignment, member, rows_of, run, write
from udfs.groups.verdict_reason import VERDICT_REASONS

BEFORE, THEN, LATER = "2025-06-15T15:06:39Z", "2025-06-15T15:07:20Z", "2025-06-15T15:08:20Z"
"""A second before START_MS, 40 s and 100 s after it."""

UNOWNED = {"planned_owner": None, "observed_owners": []}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "assignments": [assignment(queue, "OK", 0) for queue in (0, 1, 2, 7)]
            + [assignment(7, "OK", 0, consumer_group="audit", planned_owner="Z@1", observed_owners=["Z@1"])],
            "memberships": [member("A@1", "JOINED", 0), member("A@1", "LEFT", 90, strategy=None)],
        },
        {
            "assignments": [
                assignment(7, "DOUBLE_CONSUMED", 30, observed_owners=["A@1 at h1:5", "A@1 at h2:5"], completeness=0.5),
                assignment(0, "UNOWNED", 30, **UNOWNED),
                assignment(1, "UNKNOWN", 30, **UNOWNED, completeness=0.0),
            ],
            "alerts": [
                alert(
                    "twin", "FIRING", 31, kind="duplicate_client_id", queues=[], topic=None, advice="Name them apart."
                ),
                alert("gone", "FIRING", 32, queues=["broker-a:0"], inhibited_by="twin-1"),
            ],
        },
        {"alerts": [alert("gone", "RESOLVED", 95, queues=["broker-a:0"])]},
    )


def lines(warehouse: Path, *arguments: str) -> list[str]:
    result = run(warehouse, "owner", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_a_line_a_group_with_the_state_at_that_time(warehouse: Path) -> None:
    assert lines(warehouse, "orders", "broker-a:7", "--group", "billing", "--at", THEN) == [
        "orders broker-a:7 of billing (c) at 2025-06-15 15:07:20 UTC: planned owner: A@1 (AVG); consumed by: A@1 at "
        "h1:5 and A@1 at h2:5; verdict DOUBLE_CONSUMED, certain since 2025-06-15 15:07:10 UTC (completeness 50%)"
    ]
    (line,) = lines(warehouse, "orders", "broker-a:7", "--group", "bill*", "--at", "2025-06-15T15:07:09Z")
    assert "consumed by: A@1; verdict OK, certain since 2025-06-15 15:06:40 UTC" in line
    reported = lines(warehouse, "orders", "broker-a:7", "--at", THEN)
    assert [line.split(" of ")[1].split()[0] for line in reported] == ["audit", "billing"]
    (line,) = lines(warehouse, "orders", "broker-a:1", "--at", THEN)
    assert line.endswith("verdict UNKNOWN, certain since 2025-06-15 15:07:10 UTC (completeness 0%); missing data")


def test_an_unowned_queue_has_its_incident_while_it_is_open(warehouse: Path) -> None:
    """With its own time and the advice of its cause."""
    (line,) = lines(warehouse, "orders", "broker-a:0", "--at", THEN)
    assert "planned owner: none; consumed by: none; verdict UNOWNED" in line
    assert line.endswith("incident gone-1: Name them apart.")
    assert "verdict UNOWNED, certain since 2025-06-15 15:07:10 UTC" in line
    assert "alert starved_queue (frozen_client), not consumed since 2025-06-15 15:06:40 UTC" in line
    (row,) = rows_of(warehouse, "owner", "orders", "broker-a:0", "--at", THEN)
    assert row["verdict"] == "UNOWNED"
    assert (row["at"], row["since"]) == ("2025-06-15T15:07:20.000Z", "2025-06-15T15:07:10.000Z")
    assert (row["incident_id"], row["advice"]) == ("gone-1", "Name them apart.")
    assert row["incident_since"] == "2025-06-15T15:06:40.000Z"
    (line,) = lines(warehouse, "orders", "broker-a:0", "--at", LATER)
    assert line.endswith("(completeness 100%)")


def test_csv_and_parquet_have_one_flat_row_a_group_and_stale_data_are_noted(warehouse: Path) -> None:
    """The newest row of any table counts, up to that time; board.stale_seconds is 660."""
    asked = ("owner", "orders", "broker-a:7", "--at", THEN, "--format")
    rows = list(csv.DictReader(io.StringIO(run(warehouse, *asked, "csv").stdout)))
    assert [row["consumer_group"] for row in rows] == ["audit", "billing"]
    assert (rows[1]["observed_owners"], rows[1]["since"]) == ("A@1 at h1:5 A@1 at h2:5", "2025-06-15T15:07:10.000Z")
    table = pq.read_table(pa.BufferReader(run(warehouse, *asked, "parquet").stdout_bytes))
    assert table.column("observed_owners").to_pylist() == [["Z@1"], ["A@1 at h1:5", "A@1 at h2:5"]]
    assert (str(table.schema.field("since").type), table.num_rows) == ("timestamp[us, tz=UTC]", 2)
    assert str(table.schema.field("incident_id").type) == "string"
    (line,) = lines(warehouse, "orders", "broker-a:2", "--at", "2025-06-15T17:20:15Z")
    assert "verdict OK, certain since" in line
    reported = "newest row 2025-06-15 15:08:15 UTC, data is 2 h 12 min old; is `run` up?"
    assert line.endswith(f"; {reported}")
    assert "not known" not in lines(warehouse, "orders", "broker-a:2", "--at", "2025-06-15T15:19:15Z")[0]
    assert "old; is `run` up?" in lines(warehouse, "orders", "broker-a:2")[0]
    (row,) = rows_of(warehouse, "owner", "orders", "broker-a:2", "--at", "2025-06-15T17:20:15Z")
    assert (row["newest_row_at"], row["is_stale"]) == ("2025-06-15T15:08:15.000Z", True)
    (row,) = rows_of(warehouse, "owner", "orders", "broker-a:2", "--at", THEN)
    assert (row["newest_row_at"], row["is_stale"]) == ("2025-06-15T15:07:12.000Z", False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["order", "broker-a:7"], "TOPIC 'order' is not in the assignments table; nearest: orders"),
        (["orders", "broker-a:3"], "topic orders has no queue broker-a:3; it has broker-a:0-2,7"),
        (
            ["orders", "broker-a:7", "--group", "biling"],
            "--group 'biling' has no queue of topic orders; nearest: billing",
        ),
        (["orders", "broker-a:7", "--cluster", "x"], "--cluster 'x' has no queue of topic orders"),
        (
            ["orders", "broker-a:7", "--at", BEFORE],
            "orders broker-a:7 has no row at 2025-06-15 15:06:39 UTC; its first row is from 2025-06-15 15:06:40",
        ),
    ],
)
def test_an_unknown_name_or_time_ends_with_1_and_names_the_nearest(
    warehouse: Path, arguments: list[str], sentence: str
) -> None:
    result = run(warehouse, "owner", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert sentence in result.stderr


@pytest.mark.parametrize(
    "queue", ["7", "broker-a", "broker-a:", "broker-a:x", ":7", "broker-a:-1", "broker-a:9999999999"]
)
def test_a_queue_is_a_broker_and_a_number(warehouse: Path, queue: str) -> None:
    result = run(warehouse, "owner", "orders", queue)
    assert result.exit_code == 2
    assert "give a broker name and a queue number, such as broker-a:7" in result.stderr


def test_an_empty_history_says_that_the_topic_is_unknown(tmp_path: Path) -> None:
    result = run(write(tmp_path), "owner", "orders", "broker-a:7")
    assert (result.exit_code, result.stderr) == (1, "error: TOPIC 'orders' is not in the assignments table\n")


def test_the_time_is_printed_in_the_local_zone_too(warehouse: Path, zone: Callable[[str], None]) -> None:
    zone("Asia/Shanghai")
    (line,) = lines(warehouse, "orders", "broker-a:2", "--at", "2025-06-15 23:07:20")
    assert "at 2025-06-15 15:07:20 UTC (23:07:20 CST): planned owner: A@1" in line
    assert START_MS == 1_750_000_000_000


@pytest.mark.parametrize(("verdict", "reason"), [("UNKNOWN", "not_asked"), ("NOT_JUDGED", "static_topic")])
def test_the_reason_of_unknown_and_not_judged_is_a_sentence(tmp_path: Path, verdict: str, reason: str) -> None:
    warehouse = write(tmp_path, {"assignments": [assignment(7, verdict, 0, **UNOWNED, verdict_reason=reason)]})
    (line,) = lines(warehouse, "orders", "broker-a:7", "--at", THEN)
    assert line.endswith(f"; {reason}: {str(VERDICT_REASONS[reason]).removesuffix('.')}")
    (row,) = rows_of(warehouse, "owner", "orders", "broker-a:7", "--at", THEN)
    assert row["verdict_reason"] == reason
