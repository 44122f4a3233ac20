"""Our log lines and those of the JVM: on stderr, for people or as JSON, without a secret."""
