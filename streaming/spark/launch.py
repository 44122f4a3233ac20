"""Spark's JVM started so that no setting stands on its command line, where every user of the machine could read it.

pyspark would put each as `--conf`; here they are in a file that only its owner reads, and that is deleted once the JVM
has read it. Part of `spark.options` may be an object store's key.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext

_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"


def launch_jvm(options: Mapping[str, str]) -> None:
    """Start it, unless this process has one already; a session that is built next runs in it."""
    if SparkContext._gateway is not None:
        return
    number, name = tempfile.mkstemp(prefix="balancewatch-spark-", suffix=".properties")  # 0600
    before = os.environ.get(_SUBMIT_ARGS)
    try:
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in options.items())
        # What the operator's own spark-defaults.conf and PYSPARK_SUBMIT_ARGS say is read as before.
        os.environ[_SUBMIT_ARGS] = f"--properties-file {name} --load-spark-defaults {before or 'pyspark-shell'}"
        SparkContext._ensure_initialized()
    finally:
        if before is None:
            os.environ.pop(_SUBMIT_ARGS, None)
        else:
            os.environ[_SUBMIT_ARGS] = before
        Path(name).unlink()


def _escaped(text: str) -> str:
    """As java.util.Properties reads it: signs with a meaning, blanks and all but ASCII as \\uXXXX."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)
