"""The agent's feed: streaming/agent/BalancewatchHook.java in a service of RocketMQ's own client, of three releases."""
