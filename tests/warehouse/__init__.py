"""Tests of what writes the tables' files."""
