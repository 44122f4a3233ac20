"""The error of known failures: its message is one sentence that names what to change."""


class BalancewatchError(RuntimeError):
    """A known failure. A command ends with its sentence on stderr and exit code 1, without a stack trace."""
