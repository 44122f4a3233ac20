"""The short form of `make field`, clocks four times as fast: twins, a frozen client, a roll-out, a broker killed.

Real RocketMQ, Kafka, `balancewatch run` and `balancewatch collect`; the truth is what the clients write down. On clocks
this fast a busy machine makes findings late, so `make proof` plays it.
"""

import json
import threading
from pathlib import Path

import pytest

from conf.settings import Settings
from tests.lab.field.report import short_of
from tests.lab.field.scenario import SHORT
from tests.lab.field.session import play_batch
from tests.lab.field.stage import field_stage
from tests.lab.field.stored import (
    judge_plays,
    judge_stored,
    keep_alerts,
    keep_events,
    read_events,
    replayed_rows,
    stored_plays,
)
from tests.support.rocketmq_clocks import Clocks

pytestmark = [pytest.mark.proof, pytest.mark.spark, pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

TOLD_SECONDS = 10.0
"""What the last round said is in the table by then."""


def test_what_is_said_of_real_trouble_is_what_the_clients_show(tmp_path: Path) -> None:
    stop = threading.Event()
    try:
        with field_stage(tmp_path, Settings.load().paths.jars, Clocks(4), stop) as stage:
            _, failures = play_batch(stage, [(SHORT, 0)])
            stop.wait(TOLD_SECONDS)
            rows = keep_alerts(tmp_path, stage.warehouse)
            keep_events(tmp_path, read_events(stage.bootstrap_servers))
    finally:
        stop.set()
    assert failures == []
    report = judge_stored(tmp_path)
    replayed = judge_plays(stored_plays(tmp_path), replayed_rows(tmp_path), tmp_path)
    # A surprise is a true trouble that the file does not expect, such as a client that a busy machine starts late.
    assert [one for one in (*short_of(report), *short_of(replayed)) if not one.startswith("surprises")] == []
    required = {(row["kind"], row["cause"]): row["required"] for row in report["kinds"]}
    assert required["starved_queue", "duplicate_client_id"] > 0
    assert required["starved_queue", "frozen_client"] > 0
    assert required["duplicate_client_id", None] == required["broker_no_data", None] == 1
    duplicates, starved = (
        [row for row in rows if (row["kind"], row["cause"], row["state"]) == (kind, "duplicate_client_id", "FIRING")]
        for kind in ("duplicate_client_id", "starved_queue")
    )
    named = [{queue for row in of_kind for queue in row["queues"]} for of_kind in (duplicates, starved)]
    assert named[0] & named[1]
    assert duplicates[0]["incident_id"] in {row["inhibited_by"] for row in starved}
    views = [(addrs, row) for row in duplicates for addrs in json.loads(row["evidence"])["views"].values()]
    assert any(len(addrs) == 2 and all(addr in row["summary"] for addr in addrs) for addrs, row in views)
