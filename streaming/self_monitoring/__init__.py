"""What goes wrong with the service itself: lost offsets, and why a query failed."""
