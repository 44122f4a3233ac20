"""Import pyarrow without numpy, whose import takes longer than many queries.

pyarrow works without numpy since its release 18.
"""

import importlib
import sys


def load_arrow(module: str = "pyarrow") -> None:
    """Import pyarrow, or one of its modules, as if numpy were not installed. Do nothing if either is loaded."""
    if "numpy" in sys.modules or "pyarrow" in sys.modules:
        return
    sys.modules["numpy"] = None  # type: ignore[assignment]  # Python's own mark of a module that cannot be imported
    try:
        importlib.import_module(module)
    finally:
        del sys.modules["numpy"]
