"""What is known to go wrong: the message is one sentence for a person, and names what to change."""


class BalancewatchError(RuntimeError):
    """A command that meets it ends with the sentence on stderr and exit code 1, without a stack trace."""
