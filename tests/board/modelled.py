"""A warehouse of modelled incidents, played by the query's own code and written without Spark: what the board shows.

Each scenario is a cluster of its own, named after it, and all of them end at NOW_MS.
"""

from functools import cache
from pathlib import Path
from typing import Any

from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.board.tables import MINUTE, NOW_MS
from tests.history.warehouse_stage import delivery
from tests.support.engine import Stream

PLAYED = {"twins": 5, "dead_broker": 5, "frozen_client": 10, "mixed_strategy": 5, "slow_broker": 10}
"""Minutes that each scenario is played for: the first, the second and the fourth still go on at the end."""

Rows = dict[str, list[dict[str, Any]]]


@cache
def played(language: str = "en") -> Rows:
    """All rows of all scenarios, by table."""
    rows: Rows = {}
    for scenario, minutes in PLAYED.items():
        cluster = load_scenario(scenario).model_copy(update={"cluster": scenario})
        simulation = Simulation(cluster, 1, NOW_MS - minutes * MINUTE)
        for table, of_table in Stream(language=language).feed(simulation.events(minutes * MINUTE)).items():
            rows.setdefault(table, []).extend(of_table)
    return rows


def write_modelled(warehouse: Path, language: str = "en") -> None:
    """The warehouse: the scenarios' rows, deliveries, quarantined messages and validations."""
    writer = DeltalakeWriter(warehouse)
    append_rows(writer, played(language) | reported() | poor(), "modelled", 0)


def reported() -> Rows:
    """Deliveries of what pages to one receiver, and the silence on what its cause explains."""
    deliveries = []
    for alert in played()["alerts"]:
        if alert["state"] != "FIRING" or alert["fired_at"] != alert["changed_at"]:
            continue
        is_effect = bool(alert.get("inhibited_by"))
        row = {name: alert[name] for name in ("incident_id", "kind", "changed_at")}
        row |= {"receiver": "*", "reason": alert["inhibited_by"]} if is_effect else {"latency_ms": 38}
        row |= {"delivered_at": alert["changed_at"] + 900, "route": "prod"}
        row["delivery_key"] = f"{alert['incident_id']}-firing-{alert['changed_at']}"
        deliveries.append(delivery("", "INHIBITED" if is_effect else "DELIVERED", 0, **row))
    return {"alert_deliveries": deliveries}


def poor() -> Rows:
    """Messages that broke their contract, one of them hostile, and expectations, one of which fails."""
    bad = [
        ("rocketmq.heartbeats", b'{"cluster": "twins", "client_id": 7}', ["wrong_type: client_id"]),
        ("rocketmq.pulls", b"<script>alert(1)</script>\xff\x00" + b"x" * 5_000, ["not_json"]),
        ("rocketmq.pulls", b'{"cluster": "twins"}', ["missing: broker_name", "missing: topic"]),
        ("rocketmq.send_latencies", None, ["no_value"]),
    ]
    quarantine = [
        {
            "topic": topic,
            "partition": 0,
            "offset": 100 + number,
            "raw": raw,
            "reasons": reasons,
            "ingest_time": NOW_MS - (number * 7 + 1) * MINUTE,
        }
        for number, (topic, raw, reasons) in enumerate(bad * 5)
    ]
    quality = [
        {
            "suite": suite,
            "expectation": expectation,
            "success": unexpected == 0,
            "evaluated": 500,
            "unexpected": unexpected,
            "unexpected_share": unexpected / 500,
            "severity": severity,
            "description": says,
            "observed": ["-20", "-3"] if unexpected else [],
            "sample_offsets": [f"{suite}-0@4711", f"{suite}-0@4712"] if unexpected else [],
            "topic": suite,
            "offsets": '{"0": [4300, 4800]}',
            "validated_at": NOW_MS - minutes * MINUTE,
        }
        for suite, expectation, severity, says, unexpected in (
            ("rocketmq.heartbeats", "contract: in set", "critical", "every message keeps its contract", 0),
            ("rocketmq.pulls", "queue: in set", "warning", "every pull is of a queue that its topic's route has", 0),
            ("rocketmq.send_latencies", "latency_ms: in range", "critical", "latency_ms is from 0 to 60,000", 7),
        )
        for minutes in (2, 12)
    ]
    return {"quarantine": quarantine, "quality": quality}
