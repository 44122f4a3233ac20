"""Typed settings with their defaults, and the list of JVM jars."""
