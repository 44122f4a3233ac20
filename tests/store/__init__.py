"""The tables as views."""
