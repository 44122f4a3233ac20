"""An embedded Kafka for one test or measurement."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from streaming.kafka_io.embedded_kafka import EmbeddedKafka


@contextlib.contextmanager
def scratch_kafka(jars: Path) -> Iterator[EmbeddedKafka]:
    """Yield an embedded Kafka on a free port; its data is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="balancewatch-kafka-", ignore_cleanup_errors=True) as data_dir:
        kafka = EmbeddedKafka(jars, Path(data_dir))
        try:
            yield kafka
        finally:
            kafka.stop()
