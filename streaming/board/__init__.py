"""The web board: firing alerts, groups, brokers and their history, read only from the Delta tables."""
