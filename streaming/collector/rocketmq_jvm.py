"""A JVM with RocketMQ's own jars, driven from Python by py4j over the loopback.

It is one process with a random port and a token, which only its standard output has. It ends when its standard input
closes: by `close()`, or when this process dies. It ignores SIGTERM.
"""

import contextlib
import logging
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

from streaming.spark.jars import PYSPARK_JARS, class_path, java
from streaming.system.known_error import BalancewatchError
from streaming.system.stopping import keep_from_sigterm

STOP_SECONDS = 5.0

ENDED_SECONDS = 0.2
"""Time in which a silent JVM may turn out to have ended."""

OUT_OF_MEMORY = 3
"""The exit code of -XX:+ExitOnOutOfMemoryError."""

CONSUME_MSG_TIMEOUT = 207
"""ResponseCode: a client did not answer its broker."""

NO_CODE, UNREADABLE = -1, -2
"""Codes of an MQClientException without ResponseCode, and of an answer that cannot be parsed."""

OPENED_PACKAGES = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
"""Packages that RocketMQ 5.5.0 accesses by reflection on JDK 17."""

# py4j logs every command with its arguments at DEBUG; an ACL secret key is one of them.
logging.getLogger("py4j").setLevel(logging.INFO)


class RocketMQError(BalancewatchError):
    """RocketMQ refused or did not answer, or the JVM is gone.

    `response_code` is RocketMQ's ResponseCode, if a server answered with one; `is_timeout` means no answer in time.
    """

    def __init__(self, message: str, response_code: int | None = None, *, is_timeout: bool = False) -> None:
        super().__init__(message)
        self.response_code = response_code
        self.is_timeout = is_timeout

    @property
    def is_answer(self) -> bool:
        """Whether a server answered: with a refusal, or with an answer that cannot be parsed."""
        return self.response_code not in (None, NO_CODE)

    @property
    def reason(self) -> str:
        """The reason in `unheard` of a clock event."""
        if self.is_timeout:
            return "timed_out"
        return "refused" if self.is_answer and self.response_code != UNREADABLE else "failed"


_LOGBACK = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5p %logger{{12}} - %m%n</pattern></encoder>
  </appender>
  <root level="{level}"><appender-ref ref="out"/></root>
</configuration>
"""


def jvm_options(jars: Path, folder: Path, heap: str, log_level: str = "OFF") -> list[str]:
    """Return the options of a RocketMQ JVM: class path, a small heap, no files outside `folder`.

    RocketMQ uses the first rmq.logback.xml of the class path; otherwise a client would use the broker's, with its forty
    rolling files.
    """
    (folder / "rmq.logback.xml").write_text(_LOGBACK.format(level=log_level))
    return [
        "-cp",
        f"{folder}:{class_path('rocketmq', jars)}",
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *OPENED_PACKAGES,
        f"-Duser.home={folder}",
    ]


class RocketMQJvm:
    """A started JVM, usable by all threads. `java` has its classes; `call(...)` calls and translates errors."""

    def __init__(
        self, jars: Path, *, heap: str = "160m", read_seconds: float = 30.0, options: Sequence[str] = ()
    ) -> None:
        """Start it. `read_seconds` bounds one call. Raises RocketMQError if it does not start."""
        self.folder = Path(tempfile.mkdtemp(prefix="balancewatch-rocketmq-"))
        self._output = (self.folder / "jvm.log").open("wb")
        try:
            _, path, *usual = jvm_options(jars, self.folder, heap)
            port, token, process = launch_gateway(
                jarpath=str(next(PYSPARK_JARS.glob("py4j-*.jar"))),
                classpath=path,
                javaopts=[*usual, "-XX:+ExitOnOutOfMemoryError", *options],
                java_path=java(),
                die_on_exit=True,
                enable_auth=True,
                create_new_process_group=True,  # no SIGINT by Ctrl-C
                redirect_stdout=deque(maxlen=0),  # its pipe must be read
                redirect_stderr=self._output,
                return_proc=True,
            )
        except (OSError, ValueError, Py4JError) as error:
            self._remove_folder()
            raise RocketMQError(f"the RocketMQ client's JVM did not start: {error}") from None
        self._process: subprocess.Popen[bytes] = process
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=port, auth_token=token, auto_convert=True, read_timeout=read_seconds
            )
        )
        try:
            keep_from_sigterm(self._gateway.jvm)
            self._gson = self._make_gson()
        except (Py4JError, OSError) as error:
            self.close()
            raise RocketMQError(f"the RocketMQ client's JVM did not start: {error}") from None

    @property
    def java(self) -> Any:
        """py4j's view of the JVM: `jvm.java.org.apache.rocketmq...`."""
        return self._gateway.jvm

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def call(self, method: Any, *arguments: Any) -> Any:
        """Call a Java method. A Java exception becomes RocketMQError with its first line and its code."""
        try:
            return method(*arguments)
        except Py4JJavaError as error:
            exception = error.java_exception
            name = str(exception.getClass().getSimpleName())
            message = f"{name}: {exception.getMessage()}".splitlines()[0]
            code = int(exception.getResponseCode()) if name in ("MQBrokerException", "MQClientException") else None
            is_timeout = name == "RemotingTimeoutException" or code == CONSUME_MSG_TIMEOUT
            raise RocketMQError(message, code, is_timeout=is_timeout) from None
        except (Py4JError, OSError) as error:
            why = f"did not answer: {type(error).__name__}"
            with contextlib.suppress(subprocess.TimeoutExpired):
                if self._process.wait(ENDED_SECONDS) == OUT_OF_MEMORY:
                    why = "ran out of memory; raise collector.jvm_memory"
            raise RocketMQError(f"the RocketMQ client's JVM {why}") from None

    def to_json(self, value: Any) -> str:
        """Return a Java object as JSON. A map with objects as keys becomes a list of [key, value] pairs."""
        return str(self.call(self._gson.toJson, value))

    def close(self) -> None:
        """End the process and remove its folder. Safe to call twice."""
        self._gateway.close()
        self._gateway._gateway_client.is_connected = False  # else each dropped object would contact the JVM
        if self._process.stdin:
            with contextlib.suppress(OSError):  # it may have ended
                self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._remove_folder()

    def _make_gson(self) -> Any:
        modifier = self._gateway.jvm.java.lang.reflect.Modifier
        left_out = (modifier.STATIC, modifier.TRANSIENT, modifier.FINAL)  # BrokerData keeps a Random in a final field
        modifiers = self._gateway.new_array(self._gateway.jvm.int, len(left_out))
        for index, value in enumerate(left_out):
            modifiers[index] = value
        builder = self._gateway.jvm.com.google.gson.GsonBuilder()
        return builder.excludeFieldsWithModifiers(modifiers).enableComplexMapKeySerialization().create()

    def _remove_folder(self) -> None:
        self._output.close()
        shutil.rmtree(self.folder, ignore_errors=True)
