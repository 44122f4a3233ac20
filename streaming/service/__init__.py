"""The processes `run`, `relay` and `demo`: what is wired to what, and how each starts and ends."""
