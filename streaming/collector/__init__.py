"""The collector: polls a RocketMQ cluster through its own admin client and publishes events."""
