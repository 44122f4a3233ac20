"""`balancewatch forget`: what it says it ends, and what it refuses."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streaming.cli import app
from streaming.service.forget_command import Decision, forget_event, read_effects
from tests.history.warehouse_stage import alert, assignment, write

WHO = ["--owner", "ada", "--reason", "sold"]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = {
        "alerts": [
            alert("one", "FIRING", 5),
            alert("two", "RESOLVED", 6),
            alert(
                "bro",
                "FIRING",
                7,
                kind="broker_no_data",
                queues=[],
                topic=None,
                consumer_group=None,
                broker_name="broker-z",
            ),
            alert(
                "col",
                "FIRING",
                8,
                kind="cluster_no_data",
                queues=[],
                topic=None,
                consumer_group=None,
                labels='{"cluster": "prod-0", "collector": "pod-1/ns:9876"}',
            ),
        ],
        "assignments": [assignment(0, "OK", 0)],
    }
    return write(tmp_path_factory.mktemp("warehouse"), rows)


def forget(warehouse: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["forget", "--warehouse", str(warehouse), *WHO, *arguments])


def test_a_dry_run_says_what_would_end_and_needs_no_kafka(warehouse: Path) -> None:
    cluster = alert("one", "FIRING", 5)["cluster"]
    said = forget(warehouse, "--cluster", cluster, "--dry-run")
    assert said.exit_code == 0, said.output
    assert f"cluster {cluster} would be forgotten, with 3 open incidents" in said.output
    assert "broker_no_data FIRING, since 2025-06-15" in said.output
    broker = forget(warehouse, "--cluster", cluster, "--broker", "broker-z", "--dry-run")
    assert f"broker broker-z of cluster {cluster} would be forgotten, with 1 open incident" in broker.output
    collector = forget(warehouse, "--cluster", cluster, "--collector", "pod-1/ns:9876", "--dry-run")
    assert f"collector pod-1/ns:9876 of cluster {cluster} would be forgotten, with 1 open" in collector.output
    assert "cluster_no_data FIRING, since 2025-06-15" in collector.output


def test_brokers_that_one_alert_joins_count_one_by_one(tmp_path: Path) -> None:
    """Of an alert about two brokers each is a broker, and forgetting one of them lists the alert."""
    joined = alert("two", "FIRING", 5, kind="broker_isolated", queues=[], topic=None, consumer_group=None,
                   broker_name="broker-a,broker-b")  # fmt: skip
    write(tmp_path, {"alerts": [joined], "assignments": [assignment(0, "OK", 0)]})
    said = forget(tmp_path, "--cluster", "c", "--dry-run")
    assert "1 open incident, 1 group and 2 brokers" in said.output
    effects = read_effects(tmp_path, Decision("c", "cluster", "c", "ada", "sold"))
    assert forget_event(Decision("c", "cluster", "c", "ada", "sold"), effects.brokers, 0)["brokers_asked"] == [
        "broker-a",
        "broker-b",
    ]
    assert "with 1 open incident;" in forget(tmp_path, "--cluster", "c", "--broker", "broker-b", "--dry-run").output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--cluster", "nowhere"], "--cluster 'nowhere' does not exist; known: "),
        (["--broker", "broker-y"], "--broker 'broker-y' does not exist in cluster prod-0; nearest: broker-z"),
        (["--group", "unknown"], "--group 'unknown' does not exist in cluster prod-0"),
        (
            ["--collector", "pod-2/ns:9876"],
            "--collector 'pod-2/ns:9876' is in no alert of cluster prod-0; nearest: pod-1",
        ),
    ],
)
def test_a_name_that_does_not_exist_ends_with_1(warehouse: Path, arguments: list[str], sentence: str) -> None:
    cluster = alert("one", "FIRING", 5)["cluster"]
    said = forget(warehouse, *(["--cluster", cluster] if "--cluster" not in arguments else []), *arguments, "--dry-run")
    assert said.exit_code == 1
    assert sentence.replace("prod-0", cluster) in said.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--broker", "broker-z", "--group", "g"], "--broker and --group: give one of them"),
        (["--group", "g", "--collector", "x"], "--group and --collector: give one of them"),
        (["--broker", " "], "--broker ' ': give 1 to 255 characters"),
    ],
)
def test_what_it_cannot_do_is_one_sentence(warehouse: Path, arguments: list[str], sentence: str) -> None:
    cluster = alert("one", "FIRING", 5)["cluster"]
    said = forget(warehouse, *(["--cluster", cluster] if "--cluster" not in arguments else []), *arguments, "--dry-run")
    assert said.exit_code == 2
    assert sentence.replace("prod-0", cluster) in said.output
    assert "Traceback" not in said.output


def test_without_kafka_it_says_what_to_set(warehouse: Path) -> None:
    said = forget(warehouse, "--cluster", alert("one", "FIRING", 5)["cluster"])
    assert said.exit_code == 2
    assert "kafka.bootstrap_servers is empty" in said.output
