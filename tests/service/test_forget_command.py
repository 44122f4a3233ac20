"""`balancewatch forget`: what it says it ends, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streaming.cli import app
from streaming.service.forget_command import Decision, forget_event, read_effects
from tests.history.warehouse_stage import Row, alert, assignment, write

WHO = ["--owner", "ada", "--reason", "sold"]
CLUSTER = alert("one", "FIRING", 5)["cluster"]


def of_no_group(kind: str, **columns: Any) -> Row:
    return alert(kind, "FIRING", 7, kind=kind, queues=[], topic=None, consumer_group=None, **columns)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = {
        "alerts": [
            alert("one", "FIRING", 5),
            alert("two", "RESOLVED", 6),
            of_no_group("broker_no_data", broker_name="broker-z"),
            of_no_group("cluster_no_data", labels='{"cluster": "prod-0", "collector": "pod-1/ns:9876"}'),
        ],
        "assignments": [assignment(0, "OK", 0)],
    }
    return write(tmp_path_factory.mktemp("warehouse"), rows)


def forget(warehouse: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["forget", "--warehouse", str(warehouse), *WHO, *arguments])


def test_a_dry_run_says_what_would_end_and_needs_no_kafka(warehouse: Path) -> None:
    for flags, what, kind in (
        ("", f"cluster {CLUSTER} would be forgotten, with 3 open incidents", "broker_no_data"),
        ("--broker broker-z", f"broker broker-z of cluster {CLUSTER} would be forgotten, with 1", "broker_no_data"),
        ("--collector pod-1/ns:9876", f"of cluster {CLUSTER} would be forgotten, with 1 open", "cluster_no_data"),
    ):
        said = forget(warehouse, "--cluster", CLUSTER, *flags.split(), "--dry-run")
        assert said.exit_code == 0, said.output
        assert what in said.output
        assert f"{kind} FIRING, since 2025-06-15" in said.output


def test_brokers_that_one_alert_joins_count_one_by_one(tmp_path: Path) -> None:
    """Of an alert about two brokers each is a broker, and forgetting one of them lists the alert."""
    joined = of_no_group("broker_isolated", broker_name="broker-a,broker-b")
    write(tmp_path, {"alerts": [joined], "assignments": [assignment(0, "OK", 0)]})
    said = forget(tmp_path, "--cluster", "c", "--dry-run")
    assert "1 open incident, 1 group and 2 brokers" in said.output
    decision = Decision("c", "cluster", "c", "ada", "sold")
    event = forget_event(decision, read_effects(tmp_path, decision).brokers, 0)
    assert event["brokers_asked"] == ["broker-a", "broker-b"]
    assert "with 1 open incident;" in forget(tmp_path, "--cluster", "c", "--broker", "broker-b", "--dry-run").output


@pytest.mark.parametrize(
    ("code", "arguments", "sentence"),
    [
        (1, ["--cluster", "nowhere"], "--cluster 'nowhere' does not exist; known: "),
        (1, ["--broker", "broker-y"], f"--broker 'broker-y' does not exist in cluster {CLUSTER}; nearest: broker-z"),
        (1, ["--group", "unknown"], f"--group 'unknown' does not exist in cluster {CLUSTER}"),
        (1, ["--collector", "pod-2/ns:9876"], f"'pod-2/ns:9876' is in no alert of cluster {CLUSTER}; nearest: pod-1"),
        (2, ["--broker", "broker-z", "--group", "g"], "--broker and --group: give one of them"),
        (2, ["--group", "g", "--collector", "x"], "--group and --collector: give one of them"),
        (2, ["--broker", " "], "--broker ' ': give 1 to 255 characters"),
    ],
)
def test_a_name_that_does_not_exist_ends_with_1_and_what_it_cannot_do_with_2(
    warehouse: Path, code: int, arguments: list[str], sentence: str
) -> None:
    said = forget(warehouse, "--cluster", CLUSTER, *arguments, "--dry-run")
    assert said.exit_code == code
    assert sentence in said.output
    assert "Traceback" not in said.output


def test_without_kafka_it_says_what_to_set(warehouse: Path) -> None:
    said = forget(warehouse, "--cluster", CLUSTER)
    assert said.exit_code == 2
    assert "kafka.bootstrap_servers is empty" in said.output
