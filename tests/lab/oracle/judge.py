"""A JVM that answers for Java classes beside Oracle.java, from the first question to `stop`."""

import contextlib
import os
import selectors
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from streaming.collector.rocketmq_jvm import OPENED_PACKAGES
from streaming.spark.jars import java
from tests.support.java_sources import JVM, compile_sources

SILENCE_SECONDS = 120.0
STOP_SECONDS = 10.0


class NoAnswerError(RuntimeError):
    """The JVM ended before the last answer. The message ends with its stderr."""


class Judge:
    """`sources`, Oracle.java among them, compiled and started on `jars`, a class path.

    `stop` ends the JVM and drops its folder; so does `ask` before it raises. Raises CompileError.
    """

    def __init__(self, jars: str, sources: Sequence[Path]) -> None:
        self._folder = TemporaryDirectory(prefix="balancewatch-oracle-")
        root = Path(self._folder.name)
        self._stderr = root / "stderr"
        try:
            compile_sources(sources, jars, root)
            with self._stderr.open("wb") as stderr:
                self._process = subprocess.Popen(
                    [
                        java(),
                        *JVM,
                        "-Dfile.encoding=UTF-8",
                        "-Duser.home=/dev/null",
                        "-Drocketmq.client.logUseSlf4j=true",
                        f"-Drocketmq.client.localOffsetStoreDir={root / 'offsets'}",
                        *OPENED_PACKAGES,
                        "-cp",
                        f"{root}{os.pathsep}{jars}",
                        "Oracle",
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    bufsize=0,
                )
        except BaseException:
            self._folder.cleanup()
            raise
        assert self._process.stdin
        assert self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)

    def ask(self, name: str, questions: Sequence[str], silence_seconds: float = SILENCE_SECONDS) -> list[str]:
        """The answer of the class `name` to each question. Raises NoAnswerError.

        Questions are written while answers are read, so neither side waits for the other with its pipe full. A JVM
        that neither takes a byte nor gives one for `silence_seconds` is killed.
        """
        unsent = memoryview("".join(f"{name} {question}\n" for question in questions).encode())
        answers: list[str] = []
        rest = b""
        with selectors.DefaultSelector() as pipes:
            pipes.register(self._stdin, selectors.EVENT_WRITE)
            pipes.register(self._stdout, selectors.EVENT_READ)
            while len(answers) < len(questions):
                ready = {key.fileobj for key, _ in pipes.select(silence_seconds)}
                if not ready:
                    self._process.kill()  # its stdout ends
                if self._stdin in ready:
                    with contextlib.suppress(BrokenPipeError):  # the end of its stdout says so too
                        unsent = unsent[os.write(self._stdin.fileno(), unsent) :]
                    if not unsent:
                        pipes.unregister(self._stdin)
                if self._stdout in ready:
                    said = os.read(self._stdout.fileno(), 1 << 16)
                    if not said:
                        raise self._ended(f"{len(answers)} of {len(questions)} questions to {name} were answered")
                    *lines, rest = (rest + said).split(b"\n")
                    answers += [line[2:].decode() for line in lines if line.startswith(b"= ")]
        return answers

    def stop(self) -> None:
        """End the JVM by the end of its stdin, and by SIGKILL after STOP_SECONDS. Safe to call twice."""
        self._end()
        self._folder.cleanup()

    def _end(self) -> None:
        self._stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()

    def _ended(self, what: str) -> NoAnswerError:
        self._end()
        code = self._process.returncode
        why = "killed in its silence" if code == -signal.SIGKILL else "by itself"
        stderr = self._stderr.read_text(errors="replace")[-2000:]
        self._folder.cleanup()
        return NoAnswerError(f"{what}; the JVM ended with {code}, {why}:\n{stderr}")
