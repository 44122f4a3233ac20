"""Questions to the Delta tables, without a JVM."""
