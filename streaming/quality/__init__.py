"""Whether the events are what they should be, on samples beside the queries; and what becomes of the refused ones."""
