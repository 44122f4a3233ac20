"""Real servers for the tests that need them: each is started here, by process id, on a free port of the loopback.

A worker of pytest-xdist has one Kafka and one Spark session at the most. Tests with the Spark session stay together on
one worker (the group "spark"), tests with Kafka alone on another (the group "kafka").

Properties are tried without a deadline, for a busy machine is no failure: 20 examples, 100 before a release
(`HYPOTHESIS_PROFILE=thorough`), 10 in `make test-fast`.
"""

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from kafka import KafkaAdminClient
from pyspark.sql import SparkSession

from conf.settings import Settings
from schemas.events import EVENTS
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.topics import create_topics
from tests.support.engine import Stream
from tests.support.rocketmq_server import wait_for
from tests.support.scratch_kafka import scratch_kafka
from tests.support.twins_log import Log, Story, publish, story, twins_log

pytest_plugins = ["tests.support.local_zone", "tests.support.rocketmq"]

hypothesis.settings.register_profile("thorough", deadline=None)
hypothesis.settings.register_profile("daily", deadline=None, max_examples=20)
hypothesis.settings.register_profile("fast", deadline=None, max_examples=10)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "daily"))

# Commands that tests start serve their metrics at free ports: another service may run on this machine.
os.environ |= {"BALANCEWATCH_METRICS__PORT": "0", "BALANCEWATCH_METRICS__RELAY_PORT": "0"}

# Spark's JVMs live for a minute or two, which is too short for the second compiler to repay its work.
os.environ |= {
    "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
    "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

# A shell that runs the tests in the background ignores SIGINT, and so would each command that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Great Expectations imports Spark's remote client, which ends a process whose `__main__` is no file: it takes it for a
# doctest. That of a pytest-xdist worker is none.
MAIN = sys.modules["__main__"]
if MAIN.__spec__ is None and not hasattr(MAIN, "__file__"):
    MAIN.__file__ = __file__

TRICKY_OPTIONS = {
    "spark.hadoop.fs.s3a.secret.key": "hunter2/+= \\:#!'\"",
    "spark.hadoop.a b=c": "  blanks around  ",
    "spark.hadoop.lines": "one\ntwo\ttab",
    "spark.hadoop.far": "naïve 東京 🙂 $HOME ${java.home} `id`",
}
"""`spark.options` of the session, which nothing reads (`spark/test_session.py`)."""

LONGEST_GROUPS = ("rocketmq", "spark", "kafka", "chromium", "s3")
"""Groups of tests that take minutes; the other tests fill the cores beside them and after them."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of this name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that share the one Spark session or the one Kafka into a group, but for those that name another.

    The longest groups begin first: one that began last would run alone.
    """
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        group = "spark" if {"warm_spark", "loaded_kafka"} & fixtures else "kafka" if "kafka" in fixtures else None
        if group and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    group = item.get_closest_marker("xdist_group")
    name = group.args[0] if group is not None else ""
    return LONGEST_GROUPS.index(name) if name in LONGEST_GROUPS else len(LONGEST_GROUPS)


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedKafka]:
    """One embedded Kafka for all tests; each empties it first or starts where its topics end."""
    with scratch_kafka(Settings.load().paths.jars) as broker:
        yield broker


@pytest.fixture
def empty_kafka(kafka: EmbeddedKafka) -> EmbeddedKafka:
    """The same Kafka without a message: its five topics are deleted, and made again by whoever asks for settings."""
    delete_topics(kafka, EVENTS)
    return kafka


@pytest.fixture(scope="session")
def log() -> Log:
    return twins_log()


@pytest.fixture(scope="session")
def reported(log: Log) -> Story:
    """The incidents the rules themselves tell of the log, without Spark."""
    return story(Stream().feed(log)["alerts"])


@pytest.fixture(scope="session")
def loaded_kafka(log: Log) -> Iterator[EmbeddedKafka]:
    """A Kafka that holds the log, and nothing else."""
    with scratch_kafka(Settings.load().paths.jars) as broker:
        publish(settings_for(broker, Path("unused")), log)
        yield broker


@pytest.fixture(scope="session")
def warm_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one JVM with Spark of this worker, as `run` starts it."""
    from streaming.spark.session import start_spark  # noqa: PLC0415  # most workers never need it

    folder = tmp_path_factory.mktemp("spark")
    settings = Settings.load(spark={"options": TRICKY_OPTIONS})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(folder))
        session = start_spark(settings, folder / "spark.log")
    assert [file.name for file in folder.iterdir()] == ["spark.log"], "the file with the settings is deleted"
    yield session
    session.stop()


@pytest.fixture
def spark(warm_spark: SparkSession) -> SparkSession:
    """A session of its own in that JVM: its queries, views and settings are nobody else's."""
    return warm_spark.newSession()


def delete_topics(broker: EmbeddedKafka, topics: Iterable[str]) -> None:
    """Those of them that are there; return when they are gone."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.delete_topics(sorted({*topics} & {*admin.list_topics()}))
        wait_for("the topics are gone", lambda: not {*topics} & {*admin.list_topics()}, 60, 0.05)
    finally:
        admin.close()


def settings_for(broker: EmbeddedKafka, root: Path, **sections: dict[str, Any]) -> Settings:
    """Settings that read `broker` and keep tables and checkpoints under `root`; the five topics exist."""
    settings = Settings.load(
        kafka={"bootstrap_servers": broker.bootstrap_servers},
        paths={"warehouse": root / "warehouse", "checkpoints": root / "checkpoints"},
        **sections,
    )
    create_topics(settings.kafka)
    return settings
