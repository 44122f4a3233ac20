"""Where Spark, Kafka, Delta and the terminal meet the rules."""
