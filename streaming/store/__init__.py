"""The Delta tables in DuckDB, without a JVM: views, one question at a time, within limits."""
