"""A simulated RocketMQ cluster: the rules of udfs and RocketMQ's timers in virtual time, reproducible by seed."""
