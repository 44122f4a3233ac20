"""Kafka: the embedded broker, topics, and clients without Spark."""
