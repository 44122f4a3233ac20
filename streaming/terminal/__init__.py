"""Start, output and end of a command."""
