"""Real servers for the tests that need them: each is started here, by process id, on a free port of the loopback.

Properties are tried without a deadline, for a busy machine is no failure; `HYPOTHESIS_PROFILE=fast` tries fewer.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from conf.settings import Settings
from streaming.ingest.embedded_kafka import EmbeddedKafka, scratch_kafka
from streaming.ingest.topics import create_topics

hypothesis.settings.register_profile("thorough", deadline=None)
hypothesis.settings.register_profile("fast", deadline=None, max_examples=20)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "thorough"))

# Commands that tests start serve their metrics at free ports: another service may run on this machine.
os.environ |= {"BALANCEWATCH_METRICS__PORT": "0", "BALANCEWATCH_METRICS__RELAY_PORT": "0"}


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedKafka]:
    """One embedded Kafka for all tests; each takes topics of its own or starts where they end."""
    with scratch_kafka(Settings.load().paths.jars) as broker:
        yield broker


def settings_for(broker: EmbeddedKafka, root: Path, **sections: dict[str, Any]) -> Settings:
    """Settings that read `broker` and keep tables and checkpoints under `root`; the five topics exist."""
    settings = Settings.load(
        kafka={"bootstrap_servers": broker.bootstrap_servers},
        paths={"warehouse": root / "warehouse", "checkpoints": root / "checkpoints"},
        **sections,
    )
    create_topics(settings.kafka)
    return settings
