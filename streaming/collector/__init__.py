"""A RocketMQ cluster, read round by round through its own admin client and told as events."""
