"""Kafka: the embedded broker, topics, and whoever writes or reads events without Spark."""
