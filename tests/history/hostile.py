"""SQL of golden/hostile_sql.txt: HOSTILE is refused; HARMLESS reads DuckDB's own state, or changes it until the end of
the process."""

from pathlib import Path

import duckdb


def _serialized(sql: str) -> str:
    ((text,),) = duckdb.connect().execute("SELECT json_serialize_sql($1::VARCHAR)", [sql]).fetchall()
    return str(text).replace("'", "''").replace("{", "{{").replace("}", "}}")


def _read() -> dict[str, list[str]]:
    """Return the statements by section."""
    copy = _serialized("WITH x AS (COPY (SELECT 1 AS a) TO '@') FROM x").replace("@", "{new}")
    text = (Path(__file__).parents[1] / "golden/hostile_sql.txt").read_text().partition("\n\n")[2]
    sections = (section.partition("]\n") for section in text.removeprefix("[").split("\n[", 2))
    return {
        name: [
            line.replace("<COPY>", copy)
            .replace("<SELECT>", _serialized("SELECT 1"))
            .replace("\\n", "\n")
            .replace("\\0", "\0")
            for line in lines.removesuffix("\n").split("\n")
        ]
        for name, _, lines in sections
    }


_SQL = _read()
HARMLESS = _SQL["harmless"]
HOSTILE = (
    *_SQL["refused"],
    *(
        sql.replace("{}", place)
        for sql in _SQL["refused with {} as each file"]
        for place in ("{data}", "{log}", "{other}", "{secret}")
    ),
)
