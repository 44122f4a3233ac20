"""How a command begins, prints and ends."""
