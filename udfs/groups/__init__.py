"""A consumer group: who should own each queue, who does, what is wrong, why, and the one line that fixes it."""
