"""Send latencies and ticks into Kafka, to be drained."""

import time

from pyspark.sql import SparkSession

from conf.settings import Kafka, Settings
from streaming.kafka_io.topics import create_topics
from streaming.spark.session import start_spark
from tests.bench.events import SENDS_PER_SECOND, clocks, send_latencies, write_messages
from tests.bench.scratch import SPARK_LOG, say


def preload(bootstrap_servers: str, count: int) -> None:
    """By a Spark session of its own."""
    settings = Settings.load(kafka={"bootstrap_servers": bootstrap_servers, "options": {}})
    create_topics(settings.kafka)
    spark = start_spark(settings, SPARK_LOG)
    try:
        write_sends(spark, settings.kafka, count)
    finally:
        spark.stop()


def write_sends(spark: SparkSession, kafka: Kafka, count: int) -> None:
    span_ms = count * 1000 // SENDS_PER_SECOND
    start_ms = time.time_ns() // 1_000_000 - span_ms
    began = time.monotonic()
    write_messages(send_latencies(spark, start_ms, count), kafka)
    write_messages(clocks(spark, start_ms, start_ms + span_ms), kafka)
    say(f"{count:,} send latencies in Kafka after {time.monotonic() - began:.0f} s")
