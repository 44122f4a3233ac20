"""Under which maxOffsetsPerTrigger each batch of a checkpoint was planned.

A batch that was killed runs again with the offsets that were planned for it, whatever the limit is by then: whether it
was cut is reported by the limit of that time. `limits.json` beside Spark's own files has them, a line for each change.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from streaming.queries.checkpoint_offsets import read_position

FILE = "limits.json"

Limits = Sequence[tuple[int, int]]
"""(first batch, limit), in the order of the batches; 0 is no limit."""


def note_limit(checkpoint: Path, limit: int) -> Limits:
    """Before the query starts: the batches that are planned from now on are planned under this limit.

    Raises OSError or ValueError for a checkpoint that cannot be read or written.
    """
    position = read_position(checkpoint)
    known = _read(checkpoint)
    following = 0 if position is None else position.batch_id + 1
    kept = [entry for entry in known if entry[0] < following]
    limits = kept if kept and kept[-1][1] == limit else [*kept, (following, limit)]
    if limits != known:
        checkpoint.mkdir(parents=True, exist_ok=True)
        new = checkpoint / f".{FILE}.new"
        new.write_text(json.dumps(limits))
        new.replace(checkpoint / FILE)
    return limits


def limit_of(limits: Limits, batch_id: int) -> int | None:
    """The limit that the batch was planned under; None where that was before anybody noted it."""
    return next((limit for first, limit in reversed(limits) if first <= batch_id), None)


def _read(checkpoint: Path) -> list[tuple[int, int]]:
    path = checkpoint / FILE
    if not path.is_file():
        return []
    return [(int(first), int(limit)) for first, limit in json.loads(path.read_text())]
