"""A planned change of a group: which client gets which queue before and after it."""
