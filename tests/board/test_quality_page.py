"""The quality page: expectations that fail, and messages in quarantine whatever bytes they hold."""

import re
from pathlib import Path
from typing import Any

from streaming.board.pages.quality import PAGE
from tests.board.components import by_id, head_of, text_of
from tests.board.modelled import poor
from tests.board.tables import MINUTE, NOW_MS, shown, write


def message(offset: int, raw: bytes | None, ago_ms: int = MINUTE, **columns: Any) -> dict[str, Any]:
    row = {"topic": "rocketmq.pulls", "partition": 0, "offset": offset, "raw": raw, "reasons": ["not_json"]}
    return {**row, "ingest_time": NOW_MS - ago_ms, **columns}


def test_failing_expectations_and_repairs_are_reported(tmp_path: Path) -> None:
    """Neither a validation nor a message differs from all pass."""
    body = shown(PAGE, write(tmp_path / "w", poor()))
    text = text_of(by_id(body, "failing"))
    assert "latency_ms is from 0 to 60,000" in text
    assert "critical 7 of 500 (1.4%) -20 -3 rocketmq.send_latencies-0@4711" in text
    assert "every message keeps its contract" not in text
    assert "▲ 1 of 3 expectations fail 20 quarantined in 1 d" in text_of(head_of(body))
    repair = {"topic": "rocketmq.pulls", "partition": 0, "offset": 1, "action": "REPLAYED"}
    repair |= {"owner": "ada", "ingest_time": NOW_MS - MINUTE, "changed_at": NOW_MS}
    warehouse = write(tmp_path / "w1", {"quarantine": [message(1, b"a")], "repairs": [repair]})
    assert "replayed" in text_of(by_id(shown(PAGE, warehouse), "newest-table-rocketmq.pulls-0-1"))
    text = text_of(shown(PAGE, write(tmp_path / "w2", {})))
    assert "No validation has run yet." in text
    assert "The quarantine is empty." in text
    assert "All expectations pass." not in text


def test_bytes_periods_and_totals_of_the_quarantine(tmp_path: Path) -> None:
    """Bytes are bounded text and never markup; twelve reasons have a row, the other eight are one."""
    raw = b"<script>alert(1)</script>\xff\x00\n" + b"x" * 5_000
    body = shown(PAGE, write(tmp_path / "w", {"quarantine": [message(1, raw), message(2, None)]}))
    row = text_of(by_id(body, "newest-table-rocketmq.pulls-0-1"))
    assert "<script>alert(1)</script>\\xff\\x00\\x0axxx" in row
    assert "more bytes" in row
    assert len(row) < 400
    assert "(no value)" in text_of(by_id(body, "newest-table-rocketmq.pulls-0-2"))
    rows = [message(1, b"a"), message(2, b"b", reasons=["missing: topic"]), message(3, b"c", 90 * MINUTE)]
    warehouse = write(tmp_path / "1", {"quarantine": rows})
    hour, day = shown(PAGE, warehouse, since="1h"), shown(PAGE, warehouse)
    assert "not_json 1" in text_of(by_id(hour, "rejected-table"))
    assert "not_json 2" in text_of(by_id(day, "rejected-table"))
    assert sum(map(int, re.findall(r": (\d+) rocketmq", text_of(by_id(day, "quarantined"))))) == 3
    assert "@3" in text_of(by_id(hour, "newest"))
    rows = [message(number, b"a", reasons=[f"reason_{number % 20:02}"]) for number in range(200)]
    checks = [
        {
            "suite": f"suite-{number:03}",
            "expectation": "e",
            "success": number > 0,
            "evaluated": 1,
            "validated_at": NOW_MS,
        }
        for number in range(70)
    ]
    body = shown(PAGE, write(tmp_path / "2", {"quarantine": rows, "quality": checks}))
    assert "1 of 70 expectations fail 200 quarantined" in text_of(head_of(body))
    assert text_of(by_id(body, "rejected-table-more")) == "and 8 more reasons 80"
    assert "60 of 70" in text_of(by_id(body, "suites"))
