"""Our code as one file that Spark hands to the executors, as `spark-submit --py-files` does with a wheel.

So they run what the driver runs, whatever is installed there: of ours nothing has to be.
"""

import tempfile
import zipfile
from pathlib import Path

ROOMS = ("conf", "schemas", "streaming", "udfs")
ROOT = Path(__file__).parents[2]
"""Of a checkout, or where the wheel was installed."""

LEFT_OUT = ("__pycache__", "assets", "samples", "scenarios", "manual")
"""Folders that no executor reads."""


def write_archive(root: Path = ROOT) -> Path:
    """A zip of the rooms, in a folder of its own in the system's temporary one."""
    archive = Path(tempfile.mkdtemp(prefix="balancewatch-code-")) / "balancewatch.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for room in ROOMS:
            for path in sorted((root / room).rglob("*")):
                if path.is_file() and not {*LEFT_OUT} & {*path.relative_to(root).parts}:
                    file.write(path, path.relative_to(root))
    return archive
