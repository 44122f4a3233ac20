"""How many tasks a batch is: one on one machine, as many as a cluster has cores; a checkpoint keeps its number."""

import json
import time
from pathlib import Path

from pyspark.sql import SparkSession

from conf.section import SettingsError
from conf.settings import Settings
from streaming.queries.checkpoint_offsets import read_header

PARTITIONS = "spark.sql.shuffle.partitions"

PAUSE_SECONDS, COME_SECONDS = 3.0, 60.0
"""How long the executors of a cluster may be apart, and how long they are waited for in all."""


def tasks_of(settings: Settings, spark: SparkSession, checkpoint: Path) -> int:
    """State partitions and shards; Spark is told of them. A checkpoint's own number goes before the one that is set."""
    is_near = settings.spark.master.startswith("local[")
    tasks = frozen_tasks(checkpoint) or settings.queries.tasks or (1 if is_near else _cores_of(spark))
    spark.conf.set(PARTITIONS, str(tasks))
    return tasks


def _cores_of(spark: SparkSession) -> int:
    """Of all executors. They come one after the other: those count that have come when for a while no other did."""
    spark.range(1).count()  # waits for the first
    cores, deadline = 0, time.monotonic() + COME_SECONDS
    while cores < (now := spark.sparkContext.defaultParallelism) and time.monotonic() < deadline:
        cores = now
        time.sleep(PAUSE_SECONDS)
    return max(cores, 1)


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
            f"queries.tasks = {asked}: the checkpoint {checkpoint} was created with {frozen}, which cannot change; "
            f"set 0 or {frozen}, or rewind (checkpoints/README.md)"
        )
