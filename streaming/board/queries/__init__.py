"""Values for the pages: each module asks the tables in SQL and answers with frozen dataclasses; no component."""
