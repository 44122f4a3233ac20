"""What RocketMQ's clients and brokers do, class by class, each by its own release."""
