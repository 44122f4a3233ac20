"""What RocketMQ's clients and brokers decide, and what we conclude. Pure: time and seeds are arguments."""
