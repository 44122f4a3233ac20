"""What tests of several rooms share: servers, logs, plays, warehouses."""
