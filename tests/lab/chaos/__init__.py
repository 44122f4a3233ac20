"""The service under faults: killed, without Kafka, on a full disk. Its history must be that of an undisturbed run."""
