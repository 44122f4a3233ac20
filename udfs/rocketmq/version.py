"""A client's release as three numbers, the way RocketMQ writes it in MQVersion and in its tags.

Releases compare as tuples: (4, 9, 8) < (5, 1, 4).
"""

import re
from functools import lru_cache

ClientVersion = tuple[int, int, int]

NEWEST: ClientVersion = (5, 5, 0)
"""The newest release whose rules this project has read. A client that names no release is judged by it."""

RELEASE = re.compile(r"\s*[vV]?([0-9]{1,4})[._]([0-9]{1,4})(?:[._]([0-9]{1,4}))?(?![0-9])")


@lru_cache(maxsize=1024)
def parse_client_version(text: str) -> ClientVersion:
    """The release named by "4.9.8", "V4_9_8", "V5_0_0_ALPHA_SNAPSHOT" or "5.1.4-SNAPSHOT".

    A suffix is dropped and a missing third number is 0. Text that names no release gives NEWEST: MQVersion
    says "HIGHER_VERSION" for an ordinal newer than it knows.
    """
    match = RELEASE.match(text)
    if match is None:
        return NEWEST
    major, minor, patch = match.groups(default="0")
    return int(major), int(minor), int(patch)


def release_of(client_version: ClientVersion | str) -> ClientVersion:
    """Three numbers as they are, or the text that names them."""
    return parse_client_version(client_version) if isinstance(client_version, str) else client_version
