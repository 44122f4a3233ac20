"""The keys under which shards go to Spark, one of them in each state partition."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

TRIED = 64
"""Numbers looked at for each partition; hashes leave one without any in less than one start of 10^20."""


def shard_keys(spark: SparkSession, partitions: int) -> list[int]:
    """By the number of the shard: the least integer that Spark's hash sends to the partition of that number."""
    if partitions == 1:
        return [0]
    numbers = spark.range(TRIED * partitions).select(F.col("id").cast("int").alias("key"))
    placed = numbers.select("key", F.pmod(F.hash("key"), F.lit(partitions)).alias("partition"))
    least = placed.groupBy("partition").agg(F.min("key").alias("key")).collect()
    return [row["key"] for row in sorted(least, key=lambda row: row["partition"])]
