"""How often a property is tried, where the profile's number is too few or too many."""

import os

from hypothesis import settings

FEW = 30
"""As the daily profile has them. Who asks for fewer has dear ones, and gets as many every day."""


def examples(count: int) -> settings:
    """So many examples before a release, a third of them every day, and a tenth under the fast profile."""
    share = {"thorough": count, "fast": max(5, count // 10)}
    daily = max(min(count, FEW), count // 3)
    return settings(max_examples=share.get(os.environ.get("HYPOTHESIS_PROFILE", "daily"), daily), deadline=None)
