"""Kafka as the query reads it: bytes with their topic, partition, offset and timestamp; nothing is parsed here."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from conf.settings import Settings
from streaming.system.known_error import BalancewatchError


class SourceError(BalancewatchError):
    """There is no Kafka to read. The message names the setting."""


def read_messages(spark: SparkSession, settings: Settings, topics: Sequence[str]) -> DataFrame:
    """The messages of `topics`: topic, partition, offset, ingest_time_ms (the record's timestamp), value.

    Any `kafka.options` key is passed through as Spark's `kafka.<key>`.
    """
    kafka, queries = settings.kafka, settings.queries
    if not kafka.bootstrap_servers:
        raise SourceError(
            "kafka.bootstrap_servers is empty; set it to host:port of a broker, or try `balancewatch demo`"
        )
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", queries.starting_offsets)
        .option("failOnDataLoss", str(queries.fail_on_data_loss).lower())
        # The consumer's one fetch in flight otherwise holds every small batch for 500 ms.
        .option("kafka.fetch.max.wait.ms", "20")
        # Few, large fetches: a drain costs Kafka a third of the CPU and us a fifth less than with the defaults.
        .option("kafka.max.poll.records", "5000")
        .option("kafka.max.partition.fetch.bytes", str(8 << 20))
        .option("kafka.receive.buffer.bytes", str(1 << 20))
    )
    if queries.max_offsets_per_trigger:
        reader = reader.option("maxOffsetsPerTrigger", str(queries.max_offsets_per_trigger))
    for key, value in kafka.options.items():
        reader = reader.option(f"kafka.{key}", value)
    return reader.load().select(
        "topic", "partition", "offset", F.unix_millis("timestamp").alias("ingest_time_ms"), "value"
    )
