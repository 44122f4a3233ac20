"""The one Structured Streaming query, its state, and what it has read and written."""
