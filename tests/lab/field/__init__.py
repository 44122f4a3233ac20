"""A real RocketMQ under real trouble: the truth is told by its clients, and the alerts are held against it."""
