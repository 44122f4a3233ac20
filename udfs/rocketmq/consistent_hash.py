"""AllocateMessageQueueConsistentHash: clients and queues hashed onto one ring, each queue to the next client on it.

The ring is ConsistentHashRouter's: a position is the first four bytes of an MD5, read as an unsigned number.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache

from udfs.rocketmq.model import MessageQueue

VIRTUAL_NODES = 10
"""AllocateMessageQueueConsistentHash's own virtualNodeCnt."""


@lru_cache(maxsize=32_768)
def ring_position(key: str) -> int:
    """ConsistentHashRouter.MD5Hash, 0 to 2**32 - 1.

    The key is read as UTF-8: 5.0.0 and newer always do so, older releases take the JVM's default charset, which
    JDK 18 made UTF-8. A lone surrogate becomes "?", as in String.getBytes.
    """
    digest = hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def build_ring(cid_all: Sequence[str], virtual_nodes: int) -> dict[int, str]:
    """Ring position to ClientId: `virtual_nodes` positions for each entry of cid_all.

    A ClientId listed again adds replicas after those it has on the ring. Where two keys meet, the later entry takes
    the position, and the earlier one has a replica fewer.
    """
    ring: dict[int, str] = {}
    replicas = dict.fromkeys(cid_all, 0)
    for cid in cid_all:
        first = replicas[cid]
        for replica in range(first, first + virtual_nodes):
            position = ring_position(f"{cid}-{replica}")
            if position in ring:
                replicas[ring[position]] -= 1
            ring[position] = cid
            replicas[cid] += 1
    return ring


def by_consistent_hash(
    mq_all: Sequence[MessageQueue], cid_all: Sequence[str], wanted: Mapping[str, int], virtual_nodes: int
) -> dict[str, list[MessageQueue]]:
    """The share of each `wanted` ClientId, in the order of mq_all. Without virtual nodes every queue is nobody's.

    No slot is lost to a twin: both holders of a ClientId take all of its queues.
    """
    shares: dict[str, list[MessageQueue]] = {cid: [] for cid in wanted}
    ring = build_ring(cid_all, virtual_nodes)
    positions = sorted(ring)
    for mq in mq_all if positions else ():
        following = bisect_left(positions, ring_position(mq.java_string())) % len(positions)
        owner = ring[positions[following]]
        if owner in shares:
            shares[owner].append(mq)
    return shares
