"""Text for people: times and durations, escaped names, stdout and stderr."""
