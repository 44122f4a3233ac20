"""A quarantined message as text, with terminal control characters escaped."""

from collections.abc import Mapping
from typing import Any

from streaming.quality.repair import judge, pretty
from streaming.text.output import say
from streaming.text.times import both_times, to_ms, wall_ms
from streaming.text.visible_text import visible

MOST_CHARACTERS = 20_000
MOST_HEX_BYTES = 1_024


def print_message(row: Mapping[str, Any]) -> None:
    """Print the message, its state, and why it was rejected."""
    say(f"{row['topic']}-{row['partition']}@{row['offset']}, {both_times(to_ms(row['ingest_time']))}, {row['state']}")
    say(f"rejected for: {'; '.join(row['reasons'])}")
    _, reasons = judge(row["topic"], row["raw"], wall_ms())
    takes = "accepts it"
    if any(reason.startswith("unknown_queue") for reason in row["reasons"]):
        takes += "; it was rejected by its topic's route at the time"
    say(f"today's contract: {'rejects it for ' + '; '.join(reasons) if reasons else takes}")
    if row["state"] == "REPLAYED":
        say(f"replayed as {row['topic']}-{row['replayed_partition']}@{row['replayed_offset']}")
    if row["state"] == "UNKNOWN":
        place = f"{row['topic']} {row['partition']} {row['offset']}"
        say(
            f"claimed by replay {row['claim_id']}, not confirmed: `balancewatch quarantine find {place}` searches Kafka"
        )
    say(_content(row["raw"]))
    if row["repaired"] is not None:
        say(f"\nrepaired:\n{_content(row['repaired'])}")


def _content(value: bytes | None) -> str:
    if value is None:
        return "no value"
    text = pretty(value)
    if text is not None:
        return _cut(visible(text), MOST_CHARACTERS, len(text))
    return f"{len(value):,} bytes, not JSON:\n" + _cut(_hex(value[:MOST_HEX_BYTES]), 1 << 30, 0) + _rest(value)


def _rest(value: bytes) -> str:
    left = len(value) - MOST_HEX_BYTES
    return f"\n… and {left:,} bytes more; --raw prints all" if left > 0 else ""


def _cut(text: str, most: int, length: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n… and {length - most:,} characters more; --raw prints all"


def _hex(value: bytes) -> str:
    """Return lines of offset, sixteen bytes, and their ASCII characters."""
    lines = []
    for start in range(0, len(value), 16):
        part = value[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {letters}")
    return "\n".join(lines)
