"""A change on paper: a group's shares before and after it, and what a slow broker does to its producers."""
