"""The JVM's jars: resolved once by the Ivy inside pyspark from conf/ivy.xml, then used offline.

Each jar's SHA-256 is in conf/jars.sha256 and is compared before a process first uses its set, also a cached one: a
class path takes every jar of its folder, so an additional jar is refused like a changed one.
"""

import fcntl
import functools
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from conf.settings import Settings, SettingsError
from streaming.system.known_error import BalancewatchError
from streaming.text.output import warn

IVY_XML = Path(__file__).parents[2] / "conf" / "ivy.xml"
PINS = IVY_XML.with_name("jars.sha256")
LOG4J = IVY_XML.with_name("log4j2.properties")
PYSPARK_JARS = Path(pyspark.__file__).parent / "jars"
SETS = ("spark", "kafka", "rocketmq", "client-4.7.1", "client-4.9.8", "grpc-client", "proxy", "server-4.9.7", "s3")

_DOWNLOADED = re.compile(r"\[SUCCESSFUL ] .*!(\S+)\.(?:jar|bundle)")
_SAYS_WHY = re.compile(r"UNRESOLVED|FAILED|unresolved dependency|Exception")


class JarsError(BalancewatchError):
    """The jars are missing or wrong. The message names what to change."""


@functools.cache
def resolve_jars(name: str, root: Path) -> Path:
    """Return the folder with the jars of one Ivy configuration (SETS), downloaded under `root` if it is missing.

    The folder's name holds a hash of ivy.xml, so a changed list resolves again and an unchanged one needs no
    network. A set is checked once a process: a tenth of a second of a core for 70 MB. Raises JarsError if Ivy cannot
    resolve, or the jars differ from conf/jars.sha256; the next call tries again.
    """
    folder = _resolve(name, root)
    if wrong := find_wrong(name, folder):
        raise JarsError(f"{wrong}; delete {folder} to download them again")
    return folder


def _resolve(name: str, root: Path, *, is_checked: bool = True) -> Path:
    folder = folder_of(name, root)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    cache = Path.home() / ".ivy2"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "balancewatch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two resolutions at once corrupt Ivy's cache; freed when its process ends
        if folder.is_dir():  # another process resolved it meanwhile
            return folder
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
        try:
            _run_ivy(name, scratch)
            if is_checked and (wrong := find_wrong(name, scratch)):
                raise JarsError(f"{wrong}; Ivy used another repository than the pinned one")
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def folder_of(name: str, root: Path) -> Path:
    """Return the folder of a set, which exists once its jars are downloaded."""
    return root.expanduser() / _list_digest() / name


def _list_digest() -> str:
    return hashlib.sha256(IVY_XML.read_bytes()).hexdigest()[:12]


def find_wrong(name: str, folder: Path) -> str:
    """Return how the folder's jars differ from conf/jars.sha256; empty if they do not."""
    pinned, found = _read_pins().get(name, {}), _digests(folder)
    wrong = sorted(file for file in pinned.keys() | found.keys() if pinned.get(file) != found.get(file))
    if not wrong:
        return ""
    file = wrong[0]
    what = "is missing" if file not in found else "is not pinned" if file not in pinned else "has another SHA-256"
    others = f" (and {len(wrong) - 1} more of '{name}')" if len(wrong) > 1 else ""
    return f"{name}/{file} {what}{others}, compared with conf/jars.sha256"


def _digests(folder: Path) -> dict[str, str]:
    digests = {}
    for path in folder.glob("*.jar"):
        with path.open("rb") as file:
            digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def _read_pins() -> dict[str, dict[str, str]]:
    """Return the lines of `sha256sum SET/*.jar` by set and file name."""
    pins: dict[str, dict[str, str]] = {}
    for line in PINS.read_text().splitlines():
        digest, _, path = line.partition("  ")
        name, _, file = path.partition("/")
        pins.setdefault(name, {})[file] = digest
    return pins


def pin(root: Path) -> None:
    """Rewrite conf/jars.sha256 after a change of conf/ivy.xml: what Ivy resolves now is trusted."""
    digests = {name: _digests(_resolve(name, root, is_checked=False)) for name in SETS}
    lines = [f"{of_set[file]}  {name}/{file}\n" for name, of_set in digests.items() for file in sorted(of_set)]
    PINS.write_text("".join(lines))


def _run_ivy(name: str, target: Path) -> None:
    ivy = next(PYSPARK_JARS.glob("ivy-*.jar"))
    pattern = f"{target}/[artifact]-[revision](-[classifier]).[ext]"
    command = [java(), "-jar", str(ivy), "-ivy", str(IVY_XML), "-confs", name, "-types", "jar", "bundle"]
    said: list[str] = []
    done = 0
    warn(f"downloading the jars of '{name}' (once; later starts need no network)")
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
    """Return the java launcher. Raises JarsError if there is none."""
    found = shutil.which("java")
    if found is None:
        raise JarsError("no java on the PATH; install a JDK 17")
    return found


def archive_of(name: str) -> Path:
    """Return the file with the classes of "spark" or "kafka" (`make setup` makes it).

    Another JDK, environment or list of jars has another file.
    """
    jdk = Path(shutil.which("java") or sys.executable).resolve()  # without one on the PATH, Spark takes JAVA_HOME's
    return Path(sys.prefix) / "class_archives" / f"{name}-{_list_digest()}-{jdk.stat().st_mtime_ns:x}.jsa"


def archive_options(name: str) -> list[str]:
    """Return the JVM's options to map that archive (AppCDS). A JVM with other jars or settings ignores it."""
    return [f"-XX:SharedArchiveFile={path}"] if (path := archive_of(name)).is_file() else []


def class_path(name: str, root: Path) -> str:
    """Return the `-cp` of one set."""
    return f"{resolve_jars(name, root)}/*"


def spark_jars(root: Path, name: str = "spark") -> list[Path]:
    """Return the jars of a set that pyspark lacks."""
    present = {_artifact(path) for path in PYSPARK_JARS.glob("*.jar")}
    return sorted(p for p in resolve_jars(name, root).glob("*.jar") if _artifact(p) not in present)


def _artifact(path: Path) -> str:
    return re.split(r"-\d", path.name, maxsplit=1)[0]


def main() -> None:
    """`python -m streaming.spark.jars spark kafka`: resolve these sets now. `--pin` writes conf/jars.sha256 anew."""
    try:
        root = Settings.load().paths.jars
        if sys.argv[1:] == ["--pin"]:
            pin(root)
            return
        for name in sys.argv[1:] or SETS:
            resolve_jars(name, root)
    except (JarsError, SettingsError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
