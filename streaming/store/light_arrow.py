"""pyarrow without numpy, for a process that answers one question: importing numpy takes longer than many an answer.

pyarrow uses numpy where it can import it, and does without it otherwise (optional since its release 18).
"""

import sys


def load_arrow() -> None:
    """Import pyarrow as where numpy is not installed; where either is loaded already nothing is changed."""
    if "numpy" in sys.modules or "pyarrow" in sys.modules:
        return
    sys.modules["numpy"] = None  # type: ignore[assignment]  # Python's own sign for what cannot be imported
    try:
        import pyarrow  # noqa: F401, PLC0415  # now, not with this module
    finally:
        del sys.modules["numpy"]
