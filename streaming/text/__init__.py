"""Words for people: times and spans, names nobody can hide in, stdout and stderr."""
