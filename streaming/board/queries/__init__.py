"""Values of the pages: each module queries the tables in SQL and returns frozen dataclasses, no components."""
