"""Tests of streaming/metrics."""
