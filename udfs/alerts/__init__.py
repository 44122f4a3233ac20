"""Findings, incidents and their life, the thresholds, and what routes and silences match."""
