"""A storm over the complete alert path: drawn faults, several at a time, and a checker that reads only the events."""
