"""The work of `quarantine repair`, `replay` and `find`, and their output."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from kafka.errors import KafkaError
from rich.progress import track

from conf.location import Location
from conf.settings import Settings
from schemas.contract import MAX_BYTES
from streaming.kafka_io.publisher import PublishError
from streaming.kafka_io.topics import KafkaUnreachableError
from streaming.quality.filters import REPAIRED, REPLAYED, UNKNOWN, WAITING, QuarantineFilter
from streaming.quality.quarantined import open_quarantine, read_quarantined
from streaming.quality.repair import RepairError, judge, parse_sets, pretty, read_object, set_fields
from streaming.quality.repairs import BusyError, Place, Repairs, place_of
from streaming.quality.replaying import KEPT_BACK, Ready, Replay, find
from streaming.terminal.command import fail
from streaming.terminal.printing import Layout, print_table
from streaming.text.console import VisibleConsole
from streaming.text.output import say
from streaming.text.times import time_text, to_ms, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError

MOST_AT_ONCE = 100_000
SHOWN = 20
"""Messages listed; the rest is counted."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One of: fields to set and remove, a file with the event, or an editor."""

    sets: tuple[str, ...] = ()
    unsets: tuple[str, ...] = ()
    file: Path | None = None
    edit: bool = False


def repair_all(warehouse: Location, wanted: QuarantineFilter, change: Change, owner: str, *, dry_run: bool) -> int:
    """Return the number of repaired messages, or of those that would be."""
    rows = _read(warehouse, wanted, (WAITING, REPAIRED))
    values: dict[Place, bytes] = {}
    lines: list[dict[str, str]] = []
    now_ms = wall_ms()
    try:
        sets = parse_sets(change.sets)
    except RepairError as error:
        fail(str(error), code=2)
    for row in rows:
        place = place_of(row)
        try:
            value = _changed(row, change, sets)
            _, reasons = judge(place.topic, value, now_ms)
        except RepairError as error:
            if wanted.offset is not None:
                fail(f"{place}: {error}", code=2)
            value, reasons = b"", [str(error)]
        if reasons and wanted.offset is not None:
            fail(f"{place} would still be rejected for {'; '.join(reasons)}{_kept(value, change, place)}")
        if not reasons:
            values[place] = value
        lines.append({"place": str(place), "then": "; ".join(reasons) if reasons else "valid"})
    _print(lines, {"message": lambda line: line["place"], "after the repair": lambda line: line["then"]})
    if dry_run:
        say(f"{len(values):,} of {len(rows):,} would be repaired.")
        return len(values)
    try:
        kept = Repairs(warehouse).repair(values, owner, now_ms) if values else []
    except BusyError as error:
        fail(str(error))
    say(f"{len(kept):,} of {len(rows):,} repaired; `balancewatch quarantine replay` publishes them.")
    return len(kept)


def _changed(row: Row, change: Change, sets: Mapping[str, Any]) -> bytes:
    """Raises RepairError."""
    if change.file is not None:
        try:
            if change.file.stat().st_size > MAX_BYTES:
                raise RepairError(f"--file {change.file} is larger than {MAX_BYTES >> 20} MiB, the maximum of an event")
            return change.file.read_bytes().strip()
        except OSError as error:
            raise RepairError(f"--file {change.file}: {error.strerror}") from None
    known: bytes | None = row["repaired"] if row["repaired"] is not None else row["raw"]
    if change.edit:
        shown = pretty(known or b"{}") or (known or b"").decode("utf-8", "replace")
        edited = click.edit(shown[:MAX_BYTES], extension=".json")
        if edited is None:
            raise RepairError("nothing was changed")
        return edited.strip().encode()
    return set_fields(read_object(known), sets, change.unsets)


def _kept(value: bytes, change: Change, place: Place) -> str:
    """Save the editor's text after an invalid repair, and return a hint to it."""
    if not change.edit:
        return ""
    path = Path(f"{place.topic}-{place.partition}-{place.offset}.json")
    path.write_bytes(value)
    return f"; your text is in {path}: correct it there and use --file {path}"


@dataclass(frozen=True)
class Asked:
    """`unchanged`: also unrepaired messages that today's contract accepts. `old`: also old routes."""

    unchanged: bool = False
    old: bool = False
    dry_run: bool = False


def replay_all(settings: Settings, wanted: QuarantineFilter, owner: str, asked: Asked) -> Sequence[Place]:
    """Return the messages that are UNKNOWN afterwards. Raises PublishError or KafkaUnreachableError."""
    now_ms = wall_ms()
    ready: list[Ready] = []
    lines: list[dict[str, str]] = []
    left, late = Counter[str](), Counter[str]()
    for row in _read(settings.paths.warehouse, wanted, ()):
        one, why = _ready(row, asked, now_ms)
        note = "" if one is None else one.age_note(now_ms)
        if note and one is not None and one.place.topic in KEPT_BACK and not asked.old:
            one, why = None, f"too old: {note} (--old publishes it anyway)"
        if one is None:
            left[why] += 1
            continue
        ready.append(one)
        late.update([note] if note else [])
        time = time_text(one.event.event_time_ms)
        lines.append({"place": str(one.place), "time": time, "note": "too late to have an effect" if note else ""})
    layout: Layout = {
        "message": lambda line: line["place"],
        "event time": lambda line: line["time"],
        "note": lambda line: line["note"],
    }
    _print(lines, layout)
    for note, number in late.items():
        say(f"{number:,} too late to have an effect: {note}")
    for why, number in sorted(left.items()):
        say(f"{number:,} left out, {why}")
    if asked.dry_run or not ready:
        say(f"{len(ready):,} would be published." if asked.dry_run else "Nothing to publish.")
        return []
    return _publish(settings, ready, owner)


def _ready(row: Row, asked: Asked, now_ms: int) -> tuple[Ready | None, str]:
    """Return the message to publish, or why it is left out."""
    if row["state"] in (REPLAYED, UNKNOWN):
        return None, f"{row['state']}: already claimed; a message is published at most once"
    place = place_of(row)
    value: bytes | None = row["repaired"] if row["repaired"] is not None else row["raw"]
    event, reasons = judge(place.topic, value, now_ms)
    if reasons or value is None:
        return None, "rejected by today's contract: repair them first"
    if row["repaired"] is None and not asked.unchanged:
        return None, "not repaired; today's contract accepts them, and --unchanged publishes them"
    return Ready(place, value, event), ""


def _publish(settings: Settings, ready: Sequence[Ready], owner: str) -> list[Place]:
    came: dict[str, list[Place]] = {}
    try:
        with Replay(settings.kafka, Repairs(settings.paths.warehouse), owner) as replay:
            reported = replay.publish(ready, wall_ms)
            console = VisibleConsole(stderr=True)
            is_quiet = len(ready) <= SHOWN or not console.is_terminal
            for place, state in track(
                reported, "publishing", len(ready), console=console, disable=is_quiet, transient=True
            ):
                came.setdefault(state, []).append(place)
    except BusyError as error:
        raise PublishError(str(error)) from None
    say(f"{len(came.get(REPLAYED, [])):,} published.")
    if "CLAIMED" in came:
        say(f"{len(came['CLAIMED']):,} left to another replay, which claimed them meanwhile.")
    unknown = came.get(UNKNOWN, [])
    if unknown:
        some = ", ".join(map(str, unknown[:5]))
        say(f"{len(unknown):,} UNKNOWN, not confirmed by Kafka: {some}; `balancewatch quarantine find` finds them.")
    return unknown


def find_one(settings: Settings, row: Row, owner: str) -> None:
    """Find one UNKNOWN message. Leaves with 1 where Kafka does not have it."""
    place = place_of(row)
    if row["state"] != UNKNOWN:
        fail(f"{place} is {row['state']}, not UNKNOWN: only an UNKNOWN message is searched for")
    try:
        landed = find(settings.kafka, place, row["claim_id"], to_ms(row["claimed_at"]))
    except TimeoutError as error:
        fail(str(error))
    except KafkaError as error:
        servers = settings.kafka.bootstrap_servers
        raise KafkaUnreachableError(
            f"kafka.bootstrap_servers = {servers!r}: no broker answers ({type(error).__name__})"
        ) from None
    if landed is None:
        fail(f"{place} was not found in Kafka: it was not published, or has expired since")
    Repairs(settings.paths.warehouse).done(row["claim_id"], {place: landed}, owner, wall_ms())
    say(f"{place} was published as {place.topic}-{landed[0]}@{landed[1]}: it is REPLAYED")


def _read(warehouse: Location, wanted: QuarantineFilter, states: Sequence[str]) -> list[Row]:
    """Return matching messages. Leaves with 1 where there is none, with 2 for more than MOST_AT_ONCE."""
    try:
        wanted = QuarantineFilter(**{**wanted.__dict__, "states": tuple(states)})
        rows = read_quarantined(open_quarantine(warehouse), wanted, MOST_AT_ONCE + 1)
    except WarehouseError as error:
        fail(str(error))
    if not rows:
        fail("no quarantined message matches" + (", or all matches are replayed already" if states else ""))
    if len(rows) > MOST_AT_ONCE:
        fail(
            f"more than {MOST_AT_ONCE:,} messages match; narrow the filter with --topic, --reason, --since or --until",
            code=2,
        )
    return rows


def _print(lines: Sequence[Mapping[str, str]], layout: Layout) -> None:
    if lines:
        print_table(lines[:SHOWN], layout)
    if len(lines) > SHOWN:
        say(f"… and {len(lines) - SHOWN:,} more")
