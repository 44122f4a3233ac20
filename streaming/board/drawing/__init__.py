"""What the pages draw with: elements, tables and figures out of values; nothing here asks a table."""
