"""How many tasks a batch is: one on one machine, as many as a cluster has cores; a checkpoint keeps its number."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from conf.section import SettingsError
from conf.settings import Settings
from streaming.checkpoint_offsets import read_header

PARTITIONS = "spark.sql.shuffle.partitions"

EARLIER = ("fault_items", "assignments")
"""The two queries that there were before, whose state this one does not read."""


def tasks_of(settings: Settings, spark: SparkSession, checkpoint: Path) -> int:
    """State partitions and shards; Spark is told of them. A checkpoint's own number goes before the one that is set."""
    is_near = settings.spark.master.startswith("local")
    tasks = (
        frozen_tasks(checkpoint) or settings.queries.tasks or (1 if is_near else spark.sparkContext.defaultParallelism)
    )
    spark.conf.set(PARTITIONS, str(tasks))
    return tasks


def frozen_tasks(checkpoint: Path) -> int | None:
    """None where no batch has begun, or where Spark will say what is wrong with it."""
    try:
        header = read_header(checkpoint)
        return None if header is None else int(json.loads(header)["conf"][PARTITIONS])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def refuse_other_tasks(settings: Settings, checkpoint: Path) -> None:
    """Raises SettingsError where the checkpoint was begun with another number than is set."""
    asked, frozen = settings.queries.tasks, frozen_tasks(checkpoint)
    if asked and frozen and asked != frozen:
        raise SettingsError(
            f"queries.tasks = {asked}: the checkpoint {checkpoint} was begun with {frozen}, which cannot be changed; "
            f"set it to 0 or {frozen}, or rewind (checkpoints/README.md)"
        )


def refuse_earlier(settings: Settings, name: str) -> None:
    """Raises SettingsError where the checkpoints of an earlier release's two queries are there, and none of this."""
    root = settings.paths.checkpoints.expanduser()
    earlier = [one for one in EARLIER if (root / one).is_dir()]
    if earlier and not (root / name).is_dir():
        raise SettingsError(
            f"paths.checkpoints = {str(settings.paths.checkpoints)!r}: holds the checkpoints of an earlier release's "
            f"queries ({', '.join(earlier)}), whose state this one cannot read; move them away, and the tables with "
            "them (checkpoints/README.md, Rewind)"
        )
