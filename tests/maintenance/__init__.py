"""Tests of streaming.maintenance."""
