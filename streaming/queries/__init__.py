"""The Structured Streaming queries and the Delta tables they append to."""
