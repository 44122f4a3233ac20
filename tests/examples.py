"""How often a property is tried, where the profile's number is too few or too many."""

import os

from hypothesis import settings


def examples(count: int) -> settings:
    """So many examples, or a tenth of them under the fast profile."""
    is_fast = os.environ.get("HYPOTHESIS_PROFILE") == "fast"
    return settings(max_examples=max(5, count // 10) if is_fast else count, deadline=None)
