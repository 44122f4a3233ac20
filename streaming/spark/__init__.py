"""Spark: its jars, the session, and the tables as SQL views."""
