"""The streaming query: events of Kafka into rows of the Delta tables."""
