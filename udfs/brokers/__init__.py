"""A cluster's brokers and collectors: who gives data, whose clock is off, and what that explains."""
