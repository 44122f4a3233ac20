"""The contracts: events in Kafka, tables in Delta, and what makes a row bad."""
