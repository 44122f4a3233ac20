"""A JVM whose RocketMQ has a wall clock of its own: java/clock/SkewedClock.java as an agent."""

import subprocess
import zipfile
from pathlib import Path

from streaming.spark.jars import java

SOURCE = Path(__file__).parent / "java" / "clock" / "SkewedClock.java"
EXPORTS = "--add-exports=java.base/jdk.internal.org.objectweb.asm=ALL-UNNAMED"

COMPILE_SECONDS = 120.0


def build_agent(folder: Path) -> Path:
    """The agent's jar, in `folder`."""
    classes = folder / "clock"
    classes.mkdir(parents=True)
    compiler = str(Path(java()).resolve().with_name("javac"))
    options = ["-J-XX:TieredStopAtLevel=1", EXPORTS, "-encoding", "UTF-8", "-d", str(classes)]
    subprocess.run([compiler, *options, str(SOURCE)], check=True, timeout=COMPILE_SECONDS)
    jar = folder / "skewed-clock.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nPremain-Class: SkewedClock\n\n")
        for path in sorted(classes.glob("*.class")):
            archive.write(path, path.name)
    return jar


def skew_options(agent: Path, seconds: float) -> list[str]:
    """Options of a JVM whose RocketMQ is so far ahead."""
    return [EXPORTS, f"-javaagent:{agent}={round(seconds * 1000)}"]
