"""Whether the events are what they should be, on samples beside the query; and what becomes of the refused ones."""
