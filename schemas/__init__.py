"""The contracts: events in Kafka, tables in Delta, and the reasons for quarantine."""
