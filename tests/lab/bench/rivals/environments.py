"""A virtual environment for each rival, made once, in the user's cache and never in the source tree."""

import hashlib
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

CACHE = Path("~/.cache/balancewatch/rivals").expanduser()

SHARED = ("deltalake==1.6.6", "msgspec==0.22.0", "pyarrow==26.0.1")
"""Packages that each needs for the work, in the versions of balancewatch."""


class NoEnvironmentError(RuntimeError):
    """A rival cannot be installed here. The message is the reason, for the table."""


@dataclass(frozen=True)
class Rival:
    """`packages` are pinned. Without any it runs in the environment of this process."""

    name: str
    module: str
    packages: tuple[str, ...] = ()

    def python(self) -> Path:
        """Its interpreter; the first time its packages are installed. Raises NoEnvironmentError."""
        if not self.packages:
            return Path(sys.executable)
        wanted = (*self.packages, *SHARED)
        label = hashlib.sha256(" ".join((sys.version, *wanted)).encode()).hexdigest()[:12]
        folder = CACHE / f"{self.name.replace(' ', '-')}-{label}"
        python = folder / "bin" / "python"
        if not (folder / ".ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            command = [*pip, "--only-binary", ":all:", *wanted]  # wheels only: nothing is built here
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                lines = done.stderr.split("\n")
                raise NoEnvironmentError(next((line[:200] for line in reversed(lines) if line.strip()), "pip failed"))
            (folder / ".ready").touch()
        return python


OURS = Rival("balancewatch", "tests.lab.bench.rivals.balancewatch_service")
LOOP = Rival("plain loop", "tests.lab.bench.rivals.plain_loop", ("confluent-kafka==2.16.1",))
QUIX = Rival("quixstreams", "tests.lab.bench.rivals.quix_app", ("quixstreams==3.28.1", "confluent-kafka==2.12.2"))
BYTEWAX = Rival(
    "bytewax",
    "tests.lab.bench.rivals.bytewax_flow",
    ("bytewax==0.21.1", "confluent-kafka==2.16.1", "prometheus-client==0.26.0"),
)
RIVALS = (OURS, BYTEWAX, QUIX, LOOP)
