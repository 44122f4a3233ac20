"""`check --connect`: a line for each connection, what it must not write or send, and its limit of time."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource

from conf.settings import Settings
from schemas.events import CLOCKS, EVENTS, PULLS
from streaming.check import connections
from streaming.check.connections import Finding, judge_rights, judge_topic_settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.topics import create_topics, open_admin
from streaming.system.known_error import BalancewatchError
from tests.check.checking import check, move_to_site, write
from tests.conftest import delete_topics
from tests.relay.fakes import FakeServer
from tests.support.rocketmq import RocketMQ
from tests.support.s3_server import BUCKET, environment_of, s3_server

SITE = """
[[oncall.receivers]]
name = "hook"
type = "webhook"
url = "{url}"
[[oncall.routes]]
name = "all"
receivers = ["hook"]
"""


@pytest.fixture(autouse=True)
def _a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_to_site(tmp_path, monkeypatch, "")
    monkeypatch.setenv("BALANCEWATCH_PATHS__CHECKPOINTS", str(tmp_path / "checkpoints"))


def connect(code: int = 0, *arguments: str) -> dict[str, str]:
    """The lines by subject, without the settings that are printed before them."""
    result = check("--connect", *arguments)
    assert result.exit_code == code, result.output
    lines = result.stdout.partition("The settings are valid.\n")[2].splitlines()
    return {line[8:].partition(": ")[0]: f"{line[:8].strip()}: {line[8:].partition(': ')[2]}" for line in lines}


def test_what_is_not_configured_is_skipped_and_nothing_is_written(tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    found = connect()
    assert {subject: line.split(":")[0] for subject, line in found.items()} == {
        "Kafka": "skipped",
        "RocketMQ": "skipped",
        "receiver log": "skipped",
        "tables": "ok",
        "checkpoints": "ok",
    }
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_cannot_be_written_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may write to /proc, not even root."""
    monkeypatch.setenv("BALANCEWATCH_PATHS__CHECKPOINTS", "/proc/balancewatch")
    assert "failed: paths.checkpoints = /proc/balancewatch: /proc cannot be" in connect(1)["checkpoints"]


def test_a_table_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"consumer_group": "billing"})
    assert "12 of 12 tables exist and open" in connect()["tables"]
    for commit in (tmp_path / "warehouse" / "alerts" / "_delta_log").glob("*.json"):
        commit.write_text("{")
    assert f"failed: {tmp_path}/warehouse/alerts cannot be opened" in connect(1)["tables"]


def test_a_receiver_is_reached_and_gets_nothing(tmp_path: Path) -> None:
    with FakeServer() as hook:
        (tmp_path / "site.toml").write_text(SITE.format(url=f"{hook.root}/hook?token=t0ken-of-the-hook"))
        assert connect()["receiver hook"] == f"ok: 127.0.0.1:{hook.port} accepts connections"
    assert hook.received == []
    line = connect(1)["receiver hook"]
    assert f"failed: no connection to 127.0.0.1:{hook.port}: connection failed" in line
    assert "t0ken" not in line


def test_a_dead_kafka_fails_with_its_reason_and_without_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "KAFKA_MS", 500)
    monkeypatch.setenv("BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    result = check("--connect", "--format", "json")
    assert result.exit_code == 1
    assert '"no broker answers at 127.0.0.1:1 (111 ECONNREFUSED); check kafka.bootstrap_servers and the network"' in (
        result.stdout
    )
    assert result.stderr == ""


@pytest.fixture
def server_without_kafka() -> Iterator[str]:
    """A server that closes each connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_all() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=close_all, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_server_that_ends_the_connection_points_to_the_security_options(
    monkeypatch: pytest.MonkeyPatch, server_without_kafka: str
) -> None:
    monkeypatch.setattr(connections, "KAFKA_MS", 1_000)
    monkeypatch.setenv("BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS", server_without_kafka)
    assert connect(1)["Kafka"].endswith("check kafka.options: security.protocol is PLAINTEXT")


@pytest.mark.real
def test_kafka_without_the_topics_with_them_and_with_a_small_limit(
    empty_kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS", empty_kafka.bootstrap_servers)
    monkeypatch.setenv("BALANCEWATCH_KAFKA__OPTIONS", '{"compression.type": "gzip"}')
    kafka = Settings.load().kafka
    assert connect()["Kafka topics"] == "ok: 0 of 5 exist; `run` may create the other 5"
    admin: KafkaAdminClient = open_admin(kafka)
    try:
        assert not set(EVENTS) & set(admin.list_topics())
        create_topics(kafka)
        found = connect()
        assert found["Kafka"] == f"ok: {empty_kafka.bootstrap_servers} answers; brokers reached: 1"
        assert found["Kafka topics"] == "ok: 5 of 5 exist"
        assert found["Kafka rights of `run`"].startswith("ok")
        assert found["Kafka message size"].startswith("ok")
        admin.alter_configs([ConfigResource("TOPIC", PULLS, {"max.message.bytes": "1000000"})])
        assert connect(1)["Kafka message size"] == (
            f"failed: {PULLS} takes 1,000,000 bytes, events have up to 1,048,576; raise its max.message.bytes"
        )
        monkeypatch.setenv("BALANCEWATCH_KAFKA__REPLICATION_FACTOR", "3")
        admin.delete_topics([CLOCKS])
        assert f"failed: {CLOCKS} is missing and may not be created" in connect(1)["Kafka topics"]
    finally:
        admin.close()
        delete_topics(empty_kafka, EVENTS)


def test_rights_that_a_command_lacks_are_named() -> None:
    all_ = ["DESCRIBE", "READ", "WRITE"]
    needs: dict[str, Any] = {"read": [PULLS], "written": [CLOCKS]}
    assert judge_rights("run", **needs, rights={PULLS: all_, CLOCKS: all_}).outcome == "ok"
    assert judge_rights("run", **needs, rights={PULLS: all_}).outcome == "ok"
    assert judge_rights("run", **needs, rights={}).outcome == "skipped"
    assert judge_rights("run", **needs, rights={PULLS: ["DESCRIBE"], CLOCKS: ["READ"]}) == Finding(
        "Kafka rights of `run`", "failed", f"the user lacks Read on {PULLS}, Write on {CLOCKS}; grant them"
    )
    assert judge_topic_settings({}).outcome == "skipped"


def test_a_check_that_hangs_holds_no_other_and_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def hang(_: Settings) -> list[Finding]:
        released.wait(60)
        return []

    def crash(_: Settings) -> list[Finding]:
        raise BalancewatchError("password=hunter2-hunter2")

    monkeypatch.setattr(connections, "MOST_SECONDS", 2.0)
    monkeypatch.setattr(connections, "CHECKS", {"disk": hang, "net": crash, "tables": connections.check_tables})
    found = connect(1)
    released.set()
    assert found["disk"] == "failed: no result within 2 s; check the network and the disk"
    assert found["net"] == "failed: BalancewatchError: password=***"
    assert found["tables"].startswith("ok")


@pytest.mark.real
@pytest.mark.xdist_group("s3")
def test_a_bucket_is_written_and_left_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server(tmp_path / "server.log") as address:
        for name, value in environment_of(address).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("BALANCEWATCH_PATHS__WAREHOUSE", f"s3://{BUCKET}/tables")
        assert connect()["tables"] == f"ok: s3://{BUCKET}/tables is writable; 0 of 12 tables exist and open"
        monkeypatch.setenv("BALANCEWATCH_PATHS__WAREHOUSE", "s3://no-bucket/tables")
        assert "bucket no-bucket does not exist" in connect(1)["tables"]


@pytest.mark.real
@pytest.mark.xdist_group("rocketmq")
def test_a_dead_name_server_hides_no_broker(rocketmq_cluster: RocketMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALANCEWATCH_COLLECTOR__NAME_SERVER", f"127.0.0.1:1;{rocketmq_cluster.name_server}")
    monkeypatch.setattr(connections, "MOST_SECONDS", 120.0)
    found = connect(1)
    assert "connect to 127.0.0.1:1 failed" in found["NameServer 127.0.0.1:1"]
    assert found[f"NameServer {rocketmq_cluster.name_server}"] == "ok: answers"
    assert found["RocketMQ brokers"].startswith("ok: 2 of 2 in cluster ")
