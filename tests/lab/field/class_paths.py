"""The class path of a client: a release's jars and the sources of java/ compiled against them, once a run.

java/clock/SkewedClock.java is an agent that gives RocketMQ in a JVM another wall clock.
"""

import os
import threading
import zipfile
from pathlib import Path

from streaming.spark.jars import class_path
from tests.agent.hooked import HOOK, hook_class_path
from tests.lab.oracle import RELEASES
from tests.support.java_sources import compile_sources

SOURCES = Path(__file__).with_name("java")
CLOCK = SOURCES / "clock" / "SkewedClock.java"
GRPC = "grpc-client"
"""The Ivy configuration of rocketmq-client-java."""

EXPORTS = "--add-exports=java.base/jdk.internal.org.objectweb.asm=ALL-UNNAMED"


class ClassPaths:
    """By release; `folder` takes the compiled classes. Threads may ask side by side."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._jars, self._folder = jars, folder
        self._compiled: dict[str, str] = {}
        self._clock_agent: Path | None = None
        self._lock = threading.Lock()

    def of(self, release: str, *, is_grpc: bool = False) -> str:
        """`-cp` of a client of the release; of the gRPC client, which is of one release."""
        name = GRPC if is_grpc else RELEASES[release]
        with self._lock:
            if name not in self._compiled:
                self._compiled[name] = self._compile(name)
            return self._compiled[name]

    def clock_agent(self) -> Path:
        """The jar by which a JVM has a clock of its own."""
        with self._lock:
            if self._clock_agent is None:
                self._clock_agent = build_agent(self._folder)
            return self._clock_agent

    def _compile(self, name: str) -> str:
        jars = class_path(name, self._jars)
        if name != GRPC:
            jars = hook_class_path(jars, self._jars)
        target = self._folder / "classes" / name
        target.mkdir(parents=True)
        compile_sources(sources_of(name), jars, target)
        return f"{target}{os.pathsep}{jars}"


def sources_of(name: str) -> list[Path]:
    """Grpc*.java for gRPC, Remoting*.java and the hook for the others, and what serves both."""
    others = "Remoting" if name == GRPC else "Grpc"
    sources = [path for path in sorted(SOURCES.glob("*.java")) if not path.name.startswith(others)]
    return sources if name == GRPC else [*sources, HOOK]


def build_agent(folder: Path) -> Path:
    """Build the agent's jar in `folder`."""
    classes = folder / "clock"
    classes.mkdir(parents=True)
    compile_sources([CLOCK], "", classes, EXPORTS)
    jar = folder / "skewed-clock.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nPremain-Class: SkewedClock\n\n")
        for path in sorted(classes.glob("*.class")):
            archive.write(path, path.name)
    return jar


def skew_options(agent: Path, seconds: float) -> list[str]:
    """Return the options of a JVM whose RocketMQ is `seconds` ahead."""
    return [EXPORTS, f"-javaagent:{agent}={round(seconds * 1000)}"]
