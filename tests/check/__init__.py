"""What the settings, and an alert, would do."""
