"""A recorded log once more."""
