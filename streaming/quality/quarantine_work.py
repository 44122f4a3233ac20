"""What `quarantine repair`, `replay` and `find` do, and say of it."""

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
"""Messages that are told one by one; of more, how many there are."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One of: fields to set and take away, a file with the event, or an editor."""

    sets: tuple[str, ...] = ()
    unsets: tuple[str, ...] = ()
    file: Path | None = None
    edit: bool = False


def repair_all(warehouse: Location, wanted: QuarantineFilter, change: Change, owner: str, *, dry_run: bool) -> int:
    """How many were repaired, or would be."""
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
            fail(f"{place} would still be refused for {'; '.join(reasons)}{_kept(value, change, place)}")
        if not reasons:
            values[place] = value
        lines.append({"place": str(place), "then": "; ".join(reasons) if reasons else "keeps its contract"})
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
                raise RepairError(f"--file {change.file} is over {MAX_BYTES >> 20} MiB, which no event may be")
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
    """An editor's text is not lost with its fault."""
    if not change.edit:
        return ""
    path = Path(f"{place.topic}-{place.partition}-{place.offset}.json")
    path.write_bytes(value)
    return f"; your text is in {path}: mend it there and give it by --file"


@dataclass(frozen=True)
class Asked:
    """`unchanged`: also what nobody repaired and today's contract takes. `old`: also old routes."""

    unchanged: bool = False
    old: bool = False
    dry_run: bool = False


def replay_all(settings: Settings, wanted: QuarantineFilter, owner: str, asked: Asked) -> Sequence[Place]:
    """Those that are UNKNOWN afterwards. Raises PublishError or KafkaUnreachableError."""
    now_ms = wall_ms()
    ready: list[Ready] = []
    lines: list[dict[str, str]] = []
    left, late = Counter[str](), Counter[str]()
    for row in _read(settings.paths.warehouse, wanted, ()):
        one, why = _ready(row, asked, now_ms)
        note = "" if one is None else one.age_note(now_ms)
        if note and one is not None and one.place.topic in KEPT_BACK and not asked.old:
            one, why = None, f"too old: {note} (--old publishes it)"
        if one is None:
            left[why] += 1
            continue
        ready.append(one)
        late.update([note] if note else [])
        time = time_text(one.event.event_time_ms)
        lines.append({"place": str(one.place), "time": time, "note": "too late to matter" if note else ""})
    layout: Layout = {
        "message": lambda line: line["place"],
        "event time": lambda line: line["time"],
        "note": lambda line: line["note"],
    }
    _print(lines, layout)
    for note, number in late.items():
        say(f"{number:,} too late to matter: {note}")
    for why, number in sorted(left.items()):
        say(f"{number:,} left out, {why}")
    if asked.dry_run or not ready:
        say(f"{len(ready):,} would be published." if asked.dry_run else "Nothing to publish.")
        return []
    return _publish(settings, ready, owner)


def _ready(row: Row, asked: Asked, now_ms: int) -> tuple[Ready | None, str]:
    """What is to be published for it, or why it is left out."""
    if row["state"] in (REPLAYED, UNKNOWN):
        return None, f"{row['state']}: claimed before, and published once at the most"
    place = place_of(row)
    value: bytes | None = row["repaired"] if row["repaired"] is not None else row["raw"]
    event, reasons = judge(place.topic, value, now_ms)
    if reasons or value is None:
        return None, "refused by today's contract: repair them first"
    if row["repaired"] is None and not asked.unchanged:
        return None, "not repaired; today's contract takes them as they are, and --unchanged publishes them so"
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
        say(f"{len(came['CLAIMED']):,} left to another replay that claimed them in the meantime.")
    unknown = came.get(UNKNOWN, [])
    if unknown:
        some = ", ".join(map(str, unknown[:5]))
        say(f"{len(unknown):,} UNKNOWN, Kafka did not confirm them: {some}; `balancewatch quarantine find` looks.")
    return unknown


def find_one(settings: Settings, row: Row, owner: str) -> None:
    """Leaves with 1 when it is not there."""
    place = place_of(row)
    if row["state"] != UNKNOWN:
        fail(f"{place} is {row['state']}, not UNKNOWN: there is nothing to find")
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
        fail(f"{place} is not among what Kafka still has: it was not published, unless it has expired there since")
    Repairs(settings.paths.warehouse).done(row["claim_id"], {place: landed}, owner, wall_ms())
    say(f"{place} was published as {place.topic}-{landed[0]}@{landed[1]}: it is REPLAYED")


def _read(warehouse: Location, wanted: QuarantineFilter, states: Sequence[str]) -> list[Row]:
    """Leaves with 1 when there is none, or too many."""
    try:
        wanted = QuarantineFilter(**{**wanted.__dict__, "states": tuple(states)})
        rows = read_quarantined(open_quarantine(warehouse), wanted, MOST_AT_ONCE + 1)
    except WarehouseError as error:
        fail(str(error))
    if not rows:
        fail("no quarantined message matches" + (", or it was replayed already" if states else ""))
    if len(rows) > MOST_AT_ONCE:
        fail(
            f"more than {MOST_AT_ONCE:,} messages match; ask for fewer by --topic, --reason, --since or --until", code=2
        )
    return rows


def _print(lines: Sequence[Mapping[str, str]], layout: Layout) -> None:
    if lines:
        print_table(lines[:SHOWN], layout)
    if len(lines) > SHOWN:
        say(f"… and {len(lines) - SHOWN:,} more")
