"""What fills Kafka: the embedded broker, the collector, the modelled cluster."""
