"""Output of the commands: the only functions that write to stdout and stderr, in text that is safe to show.

Names come from clients, tables and arguments: `say`, `warn` and `write_csv` escape control and invisible characters
(`visible`), `write_json` escapes them exactly. `streaming.text.console` prints tables and colours.
`tests/test_layout.py` finds other prints.
"""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from streaming.text.visible_text import visible, visible_json


def say(text: str, *, flush: bool = False) -> None:
    print(visible(text), flush=flush)


def warn(text: str) -> None:
    """Print a message to stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def note(text: str) -> None:
    warn(f"note: {text}")


def write_json(value: Any, *, default: Callable[[Any], Any] | None = None) -> None:
    write_json_text(json.dumps(value, indent=2, ensure_ascii=False, default=default) + "\n")


def write_json_text(text: str) -> None:
    """Print a piece of JSON, with invisible characters escaped."""
    sys.stdout.write(visible_json(text))


FORMULA = re.compile(r"[=@\t\r]|[+-](?!\d+(\.\d+)?$)")
"""The beginning of a formula; a signed number is none."""


def write_csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> int:
    """Print a line of names and a line per row; return the number of rows.

    A text that a spreadsheet takes for a formula gets an apostrophe in front.
    """
    writer = csv.DictWriter(sys.stdout, fieldnames=list(names))
    writer.writerow({name: visible(name) for name in names})
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007  # the last number is the result
        writer.writerow({name: _csv_cell(value) if isinstance(value, str) else value for name, value in row.items()})
    return count


def _csv_cell(text: str) -> str:
    return f"'{visible(text)}" if FORMULA.match(text) else visible(text)


def bytes_out() -> BinaryIO:
    """Return stdout for bytes. The caller checks that it is a file or a pipe."""
    return sys.stdout.buffer
