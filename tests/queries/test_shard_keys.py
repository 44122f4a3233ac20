"""The keys of shards, by Spark's own hash: each state partition has one shard, and shards are as many as tasks."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streaming.queries.balance import shard_keys

pytestmark = [pytest.mark.spark, pytest.mark.real]


@pytest.mark.parametrize("partitions", [2, 3, 16])
def test_a_shuffle_by_key_sends_each_shard_to_its_own_partition(spark: SparkSession, partitions: int) -> None:
    keys = shard_keys(spark, partitions)
    shards = spark.createDataFrame([(key,) for key in keys], "shard int").repartition(partitions, "shard")
    placed = shards.select("shard", F.spark_partition_id().alias("partition")).collect()
    assert {row["shard"]: row["partition"] for row in placed} == {key: number for number, key in enumerate(keys)}


def test_one_shard_needs_no_spark_to_find_its_key() -> None:
    nobody: SparkSession = None  # type: ignore[assignment]  # it is not asked
    assert shard_keys(nobody, 1) == [0]


def test_keys_are_the_same_at_every_start(spark: SparkSession) -> None:
    """State is kept under them."""
    assert shard_keys(spark, 3) == shard_keys(spark.newSession(), 3)
