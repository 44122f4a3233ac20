"""Java sources beside the tests, compiled against a release's jars."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from streaming.spark.jars import java

COMPILE_SECONDS = 120.0
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g")


class CompileError(RuntimeError):
    """The sources do not compile. The message ends with what the compiler says."""


def compile_sources(sources: Sequence[Path], jars: str, target: Path, *more: str) -> None:
    """Write the classes below `target`. `jars` is a class path, `more` are options. Raises CompileError."""
    compiler = [str(Path(java()).resolve().with_name("javac")), *(f"-J{option}" for option in JVM)]
    options = ["-proc:none", "-nowarn", "-encoding", "UTF-8", "-cp", jars, "-d", str(target), *more]
    said = subprocess.run(
        [*compiler, *options, *map(str, sources)], capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False
    )
    if said.returncode:
        raise CompileError(said.stderr[-2000:])
