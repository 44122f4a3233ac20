"""What a session has on disk: the plays' folders, the alerts' rows, and the events, through which rules work again."""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.queries.rulebook import rulebook
from streaming.replay.replay_command import read_kafka, slices_of
from streaming.replay.stream import Message, Stream
from streaming.store.store import History
from streaming.warehouse.warehouse_error import WarehouseError
from tests.lab.field.judge import Row, Verdict, judge
from tests.lab.field.others import read_others
from tests.lab.field.played import RECORD, Played, read_played
from tests.lab.field.report import report_of
from tests.lab.field.truth import Truth, read_truth
from udfs.alerts.rulebook import CANARY_CLUSTER

EVENTS_FILE = "events.jsonl.gz"
RULES_FILE = "rules.toml"
"""Present where the session's clocks were faster than production's."""


def read_events(bootstrap_servers: str) -> Iterator[list[Message]]:
    """All that Kafka holds of the five topics, in the order that it took them."""
    yield from read_kafka(Settings.load(kafka={"bootstrap_servers": bootstrap_servers}).kafka, 0, 2**53)


def keep_events(folder: Path, slices: Iterable[list[Message]]) -> int:
    """Write every message to EVENTS_FILE, a line each; return how many there are."""
    kept = 0
    with gzip.open(folder / EVENTS_FILE, "wt", compresslevel=3) as file:
        for part in slices:
            for message in part:
                file.write(json.dumps({**message, "value": message["value"].decode(errors="replace")}) + "\n")
                kept += 1
    return kept


def replayed_rows(folder: Path) -> list[dict[str, Any]]:
    """The alert rows that today's rules make of the kept events, by time, the canary's left out.

    Raises FileNotFoundError where the session kept no events.
    """
    own = folder / RULES_FILE
    stream = Stream(rulebook(Settings.load(rules={"file": str(own)} if own.exists() else {})))
    slices = slices_of((message["ingest_time_ms"], message) for message in _messages(folder))
    rows = [row for part in slices for row in stream.work_through(part).get("alerts", [])]
    return sorted((row for row in rows if row["cluster"] != CANARY_CLUSTER), key=lambda row: row["changed_at"])


def _messages(folder: Path) -> Iterator[Message]:
    with gzip.open(folder / EVENTS_FILE, "rt") as file:
        for line in file:
            message = json.loads(line)
            yield {**message, "value": message["value"].encode()}


PLAYS, ALERTS_FILE = "plays", "alerts.json"


def read_alert_rows(warehouse: Path) -> list[dict[str, Any]]:
    """Every row of the alerts table by time, the canary's left out, times in ms; nothing where there is no table."""
    try:
        return History(warehouse, [ALERTS]).rows(
            "SELECT * REPLACE (epoch_ms(started_at) AS started_at, epoch_ms(fired_at) AS fired_at,"
            " epoch_ms(changed_at) AS changed_at) FROM alerts WHERE cluster <> $canary"
            " ORDER BY changed_at, batch_id, incident_id",
            {"canary": CANARY_CLUSTER},
        )
    except WarehouseError:
        return []


def keep_alerts(folder: Path, warehouse: Path) -> list[dict[str, Any]]:
    """The rows, kept beside the plays."""
    rows = read_alert_rows(warehouse)
    (folder / ALERTS_FILE).write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return rows


def stored_plays(folder: Path) -> list[tuple[Played, Truth]]:
    """Every play that came to its end, by when it began."""
    return sorted(_plays(folder), key=lambda one: one[0].start_ms)


def judge_stored(folder: Path) -> dict[str, Any]:
    """The report of all that was played in a session."""
    text = (folder / ALERTS_FILE).read_text()
    return judge_plays(stored_plays(folder), [json.loads(line) for line in text.splitlines() if line], folder)


def judge_plays(plays: list[tuple[Played, Truth]], rows: Iterable[Row], folder: Path) -> dict[str, Any]:
    """Plays that overlap in time are judged together, for a row of no group may be any one's."""
    kept = list(rows)
    total = Verdict()
    for batch in _batches(plays):
        total.add(judge(batch, kept))
    alone = [(played, judge([(played, truth)], _own(kept, played))) for played, truth in plays]
    others = {played.name: read_others(folder / PLAYS / played.suffix.removeprefix("_")) for played, _ in plays}
    return report_of(total, alone, others)


def _own(rows: list[Row], played: Played) -> list[Row]:
    """Of a play beside others, the rows of its groups; of one that was alone, all."""
    return rows if played.scenario.alone else [row for row in rows if row["consumer_group"] is not None]


def _plays(folder: Path) -> Iterator[tuple[Played, Truth]]:
    for record in sorted((folder / PLAYS).glob(f"*/{RECORD}")):
        played = read_played(record.parent)
        yield played, read_truth(record.parent, played.start_ms, played.end_ms, played.factor)


def _batches(plays: list[tuple[Played, Truth]]) -> list[list[tuple[Played, Truth]]]:
    batches: list[list[tuple[Played, Truth]]] = []
    end_ms = 0
    for play in plays:
        if not batches or play[0].start_ms > end_ms:
            batches.append([])
        batches[-1].append(play)
        end_ms = max(end_ms, play[0].end_ms)
    return batches
