"""Why a query failed, in one sentence."""

from collections import namedtuple
from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.self_monitoring.failure import reason

PLAN = "\n=== Streaming Query ===\nLogical Plan:\n+- ~StreamingDataSourceV2ScanRelation[key#7] KafkaTable"

TRACE = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "x.py", line 1, in call
    raise e
{last}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(
        kafka={"bootstrap_servers": "kafka-1:9092"},
        paths={"warehouse": tmp_path / "warehouse", "checkpoints": tmp_path / "checkpoints"},
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TRACE.format(last="streaming.queries.store.StateError: state version 9") + PLAN, "StateError: state"),
        ("Python worker failed to connect back." + PLAN, "failed: Python worker failed to connect back."),
        (
            TRACE.format(
                last="py4j.protocol.Py4JJavaError: An error occurred while calling o4.getResult.\n"
                ": org.apache.spark.SparkException: Job aborted\n\tat org.apache.X\n"
                "Caused by: java.lang.IllegalStateException: the cause"
            )
            + PLAN,
            "failed: java.lang.IllegalStateException: the cause",
        ),
        ("org.apache.kafka.common.errors.TimeoutException: Timed out" + PLAN, "'kafka-1:9092' did not answer"),
        ("", "failed: RuntimeError"),
    ],
)
def test_the_deepest_cause_is_reported_without_spark_s_plan(settings: Settings, text: str, said: str) -> None:
    sentence = reason("balance", RuntimeError(text), settings)
    assert sentence.startswith("the query balance failed: ")
    assert said in sentence
    assert "\n" not in sentence
    assert "KafkaTable" not in sentence


@pytest.mark.parametrize(
    ("text", "is_full"),
    [
        ("OSError: Generic LocalFileSystem error: No space left on device (os error 28)", True),
        ("Caused by: java.io.IOException: No space left on device", True),
        ("OSError: Permission denied (os error 13)", False),
    ],
)
def test_a_full_disk_is_reported_by_the_folder_that_has_no_room(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, text: str, is_full: bool
) -> None:
    usage = namedtuple("usage", "free")
    full = str(settings.paths.checkpoints.parent)
    monkeypatch.setattr(
        "streaming.self_monitoring.failure.shutil.disk_usage", lambda path: usage(0 if str(path) == full else 1 << 40)
    )
    sentence = reason("balance", RuntimeError(text + PLAN), settings)
    assert ("no space left" in sentence) == is_full
    assert (f"paths.warehouse = {settings.paths.warehouse}" in sentence) == is_full


def test_a_bucket_that_is_away_is_named_without_what_its_client_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    said = "obstore.exceptions.GenericError: Generic S3 error: Error performing PUT http://127.0.0.1:1/b/x in 120s"
    reported = reason("q", RuntimeError(said), Settings.load(paths={"warehouse": "s3://bucket/x"}))
    assert reported == (
        "the query q failed: paths.warehouse = 's3://bucket/x': http://127.0.0.1:1 does not answer; "
        "check AWS_ENDPOINT_URL and the network"
    )
    said = "software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request: Connect to x"
    reported = reason("q", RuntimeError(said), Settings.load(paths={"checkpoints": "s3a://bucket/x"}))
    assert "paths.checkpoints = 's3a://bucket/x': http://127.0.0.1:1 does not answer; " in reported
