"""How often a property is tried, where the profile's number is too few or too many."""

import os

from hypothesis import settings

FEW = 6
"""A property of costly examples has so many every day, or all of fewer."""


def examples(count: int) -> settings:
    """Return the settings of a property: `count` examples before a release.

    Every day a third of them, and FEW at least; a tenth in the fast profile.
    """
    share = {"thorough": count, "fast": max(5, count // 10)}
    daily = max(min(count, FEW), count // 3)
    return settings(max_examples=share.get(os.environ.get("HYPOTHESIS_PROFILE", "daily"), daily), deadline=None)
