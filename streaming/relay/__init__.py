"""The relay: notifies receivers of alerts, at least once and in order, and records each decision."""
