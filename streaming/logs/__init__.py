"""Logs of this process and the JVM on stderr, for people or as JSON, without secrets."""
