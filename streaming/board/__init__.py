"""The board: what fires and what can be seen, in a browser; read from the Delta tables and from nothing else."""
