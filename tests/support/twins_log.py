"""A log that the stream tests share: twins that come and go beside a slow broker, and the incidents it must give."""

import threading
import tomllib
from collections.abc import Iterable
from typing import Any

from deltalake import DeltaTable

from conf.settings import Settings
from streaming.kafka_io.publisher import Publisher
from streaming.simulator.play import play
from streaming.simulator.scenario import SCENARIOS, parse_scenario
from streaming.simulator.simulation import Simulation
from streaming.simulator.world import Said
from streaming.warehouse.tables import table_path

SECONDS = 500
START_MS = 1_750_000_000_000

Log = list[tuple[str, dict[str, Any]]]
Story = dict[str, list[tuple[str, int, list[str]]]]


def twins_log() -> Log:
    """Twins appear, starve five queues, and one of them leaves; meanwhile a broker is slow, and avoided."""
    fields = tomllib.loads((SCENARIOS / "twins.toml").read_text())
    slow = {"at": 120, "until": 240, "action": "slow_broker", "broker_name": "broker-b", "latency_ms": 2000}
    fields["happenings"].append(slow)
    return list(Simulation(parse_scenario(fields), 3, START_MS).events(SECONDS * 1000))


def publish(
    settings: Settings,
    log: Iterable[tuple[str, dict[str, Any]] | Said],
    *,
    speed: float | None = None,
    stop: threading.Event | None = None,
) -> None:
    with Publisher(settings.kafka) as publisher:
        play(log, publisher, speed=speed, stop=stop or threading.Event())


def story(alerts: list[dict[str, Any]]) -> Story:
    """Incident to its states, with times in ms and queues."""
    incidents: Story = {}
    for row in sorted(alerts, key=lambda row: row["changed_at"]):
        incidents.setdefault(row["incident_id"], []).append((row["state"], row["changed_at"], row["queues"]))
    return incidents


def story_in(settings: Settings) -> Story:
    """The same of the `alerts` table."""
    rows = DeltaTable(table_path(settings.paths.warehouse, "alerts")).to_pyarrow_table().to_pylist()
    for row in rows:
        row["changed_at"] = round(row["changed_at"].timestamp() * 1000)
    return story(rows)
