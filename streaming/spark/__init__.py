"""Spark: its jars, the session, the code that executors need, and the tables as SQL views."""
