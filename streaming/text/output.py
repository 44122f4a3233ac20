"""What the commands print: the only place that writes to stdout and stderr, in text that is harmless to show.

Names come from clients, from tables and from whoever types: `say`, `warn` and `write_csv` write out what a terminal
would obey or a reader not see (`visible`), `write_json` escapes it, so that its values are exact. Tables and colours
are `streaming.text.console`'s. `tests/test_layout.py` finds who prints by other means.
"""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from streaming.text.visible_text import visible, visible_json


def say(text: str, *, flush: bool = False) -> None:
    """A line, or several, on stdout: what was asked for."""
    print(visible(text), flush=flush)


def warn(text: str) -> None:
    """A line, or several, on stderr: beside what was asked for."""
    print(visible(text), file=sys.stderr, flush=True)


def note(text: str) -> None:
    """What there is to know of the answer, on stderr."""
    warn(f"note: {text}")


def show_progress(text: str) -> None:
    """A line on a terminal's stderr that the next one writes over; nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r{visible(text)}", end="", file=sys.stderr, flush=True)


def end_progress(text: str) -> None:
    """The line that stays, over the last of `show_progress`."""
    print(("\r" if sys.stderr.isatty() else "") + visible(text), file=sys.stderr, flush=True)


def write_json(value: Any, *, default: Callable[[Any], Any] | None = None) -> None:
    """One value, indented."""
    write_json_text(json.dumps(value, indent=2, ensure_ascii=False, default=default) + "\n")


def write_json_text(text: str) -> None:
    """A piece of JSON, as it is but for what is escaped."""
    sys.stdout.write(visible_json(text))


def write_csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> int:
    """A line of names, then a line a row; the number of rows."""
    writer = csv.DictWriter(sys.stdout, fieldnames=list(names))
    writer.writerow({name: visible(name) for name in names})
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007  # the number of the last one is the answer
        writer.writerow({name: visible(value) if isinstance(value, str) else value for name, value in row.items()})
    return count


def bytes_out() -> BinaryIO:
    """Where bytes go as they are: to a file or a pipe, which the command has made sure of."""
    return sys.stdout.buffer
