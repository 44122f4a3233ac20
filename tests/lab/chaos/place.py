"""Where a scenario runs: a Kafka that holds the log, a folder for each run, and the history of an uninterrupted one."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.topics import create_topics
from tests.lab.chaos.history import Comparison, History, compare, newest_health, read_history
from tests.lab.chaos.modelled_log import Event, with_bad
from tests.lab.chaos.victim import Victim
from tests.lab.chaos.warm_life import WarmLife
from tests.support.twins_log import publish

DRAIN = ("run", "--available-now")
SERVE = ("run",)

BATCH = 1_000
"""Messages a batch reads at the most: small, so that a log is many batches."""

STARTS = 3
"""How often a service that ends with a sentence is started again, as systemd would."""


Life = Victim | WarmLife


class ChaosError(RuntimeError):
    """A run ended otherwise than it had to."""


@dataclass
class Place:
    """`folder` holds all runs. With `spark`, lives are the query in that session; without it, processes."""

    kafka: EmbeddedKafka
    folder: Path
    spark: SparkSession | None = None

    def settings(self, run: str) -> Settings:
        """Tables and checkpoints of its own for each `run`."""
        root = self.folder / run
        return Settings.load(
            kafka={"bootstrap_servers": self.kafka.bootstrap_servers, "options": {}},
            paths={"warehouse": root / "warehouse", "checkpoints": root / "checkpoints"},
            queries={"max_offsets_per_trigger": BATCH},
            quality={} if self.spark is None else {"every_batches": 0},
        )

    def live(self, run: str, arguments: tuple[str, ...] = DRAIN, trap: tuple[str, int] | None = None) -> Life:
        """One more life of a run."""
        if self.spark is not None:
            return WarmLife(self.settings(run), self.spark, drains=arguments == DRAIN, trap=trap)
        return Victim(self.settings(run), self.folder / run / "victim.log", arguments, trap=trap)

    def drain(self, run: str) -> History:
        """Let the run work through all that is in Kafka, undisturbed. Raises ChaosError when it cannot."""
        for _ in range(STARTS):
            victim = self.live(run)
            code = victim.wait()
            if code == 0:
                return read_history(self.folder / run / "warehouse")
        raise ChaosError(f"{run} ended with {code}: {' '.join(victim.errors()) or victim.printed()[-600:]}")

    def reference(self, log: Iterable[Event]) -> History:
        """Publish the log at full speed; return the history of a run without faults."""
        settings = self.settings("reference")
        create_topics(settings.kafka)
        publish(settings, with_bad(log))
        return self.drain("reference")

    def compare_live(self, run: str) -> Comparison:
        """Drain the remainder of a run whose log was written meanwhile; the reference reads the same Kafka now."""
        history = self.drain(run)
        return compare(newest_health(self.drain(f"{run}_reference")), newest_health(history))

    def finish(self, run: str, reference: History) -> Comparison:
        """Drain what is left of the run and hold it against the reference."""
        return compare(reference, self.drain(run))
