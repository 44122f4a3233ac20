"""Failures of the service itself: lost offsets, and reasons of a failed query."""
