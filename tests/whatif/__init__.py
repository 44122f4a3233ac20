"""A group on paper."""
