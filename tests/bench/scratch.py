"""A Kafka, a warehouse and checkpoints that last as long as one measure."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka, scratch_kafka

SPARK_LOG = Path(".bench/spark.log")


@dataclass(frozen=True)
class Scratch:
    """`folder` holds all that is written; `settings_for` names a warehouse and checkpoints in it."""

    folder: Path
    kafka: EmbeddedKafka
    max_offsets_per_trigger: int

    def settings_for(self, name: str, **more: dict[str, Any]) -> Settings:
        """Settings with a fresh warehouse and fresh checkpoints for each `name`; `more` are sections of others."""
        defaults = Settings.load()
        queries = {"max_offsets_per_trigger": self.max_offsets_per_trigger} | more.pop("queries", {})
        return Settings.load(
            kafka={"bootstrap_servers": self.kafka.bootstrap_servers, "options": {}},
            paths={"warehouse": self.folder / name / "warehouse", "checkpoints": self.folder / name / "checkpoints"},
            queries=queries,
            spark={"options": {**defaults.spark.options, "spark.sql.streaming.numRecentProgressUpdates": "5000"}},
            **more,
        )


@contextlib.contextmanager
def scratch(max_offsets_per_trigger: int) -> Iterator[Scratch]:
    """A started Kafka and an empty folder; both are gone afterwards."""
    with (
        scratch_kafka(Settings.load().paths.jars) as kafka,
        tempfile.TemporaryDirectory(prefix="balancewatch-bench-", ignore_cleanup_errors=True) as folder,
    ):
        yield Scratch(Path(folder), kafka, max_offsets_per_trigger)


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)
