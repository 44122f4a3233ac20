"""The JVM's jars: resolved once by the Ivy inside pyspark from conf/ivy.xml, then used offline."""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from streaming.output import warn

IVY_XML = Path(__file__).parent.parent / "conf" / "ivy.xml"
PYSPARK_JARS = Path(pyspark.__file__).parent / "jars"
SETS = ("spark", "kafka", "rocketmq", "client-4.7.1", "client-4.9.8")

_DOWNLOADED = re.compile(r"\[SUCCESSFUL ] .*!(\S+)\.(?:jar|bundle)")
_SAYS_WHY = re.compile(r"UNRESOLVED|FAILED|unresolved dependency|Exception")


class JarsError(RuntimeError):
    """The jars cannot be had. The message names what to change."""


def resolve_jars(name: str, root: Path) -> Path:
    """The folder with the jars of one Ivy configuration (SETS), resolved under `root` if it is not there yet.

    The folder's name holds a hash of ivy.xml, so a changed list resolves anew and an unchanged one needs no
    network. Raises JarsError when Ivy cannot resolve.
    """
    digest = hashlib.sha256(IVY_XML.read_bytes()).hexdigest()[:12]
    folder = root.expanduser() / digest / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
        try:
            _run_ivy(name, scratch)
            _settle(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _settle(scratch: Path, folder: Path) -> None:
    try:
        scratch.rename(folder)
    except OSError:  # another process settled the same set first; its jars are ours
        if not folder.is_dir():
            raise


def _run_ivy(name: str, target: Path) -> None:
    ivy = next(PYSPARK_JARS.glob("ivy-*.jar"))
    pattern = f"{target}/[artifact]-[revision](-[classifier]).[ext]"
    command = [java(), "-jar", str(ivy), "-ivy", str(IVY_XML), "-confs", name, "-types", "jar", "bundle"]
    said: list[str] = []
    done = 0
    warn(f"resolving the jars of '{name}' (once; later starts need no network)")
    with subprocess.Popen(  # noqa: S603  # our own command line
        [*command, "-retrieve", pattern], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            said.append(line.rstrip())
            if downloaded := _DOWNLOADED.search(line):
                done += 1
                warn(f"  {done:3d}  {downloaded[1]}")
    if process.returncode or not any(target.iterdir()):
        reason = next((line.strip() for line in said if _SAYS_WHY.search(line)), said[-1])
        raise JarsError(f"Ivy could not resolve the jars of '{name}': {reason}; is Maven Central reachable?")


def java() -> str:
    """The java launcher. Raises JarsError when there is none."""
    found = shutil.which("java")
    if found is None:
        raise JarsError("no java on the PATH; install a JDK 17")
    return found


def class_path(name: str, root: Path) -> str:
    """`-cp` of one set."""
    return f"{resolve_jars(name, root)}/*"


def spark_jars(root: Path) -> list[Path]:
    """The jars pyspark lacks, for `spark.jars`."""
    present = {_artifact(path) for path in PYSPARK_JARS.glob("*.jar")}
    return sorted(p for p in resolve_jars("spark", root).glob("*.jar") if _artifact(p) not in present)


def _artifact(path: Path) -> str:
    return re.split(r"-\d", path.name, maxsplit=1)[0]


def main() -> None:
    """`python -m streaming.jars spark kafka`: resolve these sets now."""
    from conf.settings import Settings  # noqa: PLC0415  # set-up only

    try:
        for name in sys.argv[1:] or SETS:
            resolve_jars(name, Settings.load().paths.jars)
    except JarsError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
