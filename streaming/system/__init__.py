"""The process and its machine: signals, private folders, a bounded HTTP server, known errors."""
