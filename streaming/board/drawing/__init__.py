"""Elements, tables and figures out of values; nothing here queries a table."""
