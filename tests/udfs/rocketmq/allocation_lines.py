"""Reads tests/golden/allocation.txt: a line is one group, and what each of its clients takes."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udfs.rocketmq.allocation import allocate
from udfs.rocketmq.model import MessageQueue

GOLDEN = Path(__file__).parents[2] / "golden" / "allocation.txt"
LINES = [line for line in GOLDEN.read_text().splitlines() if line and not line.startswith("#")]


def before_at(name: str) -> str:
    return name.partition("@")[0]


ROOMS = {"broker_room": lambda mq: before_at(mq.broker_name), "client_room": before_at}


def ids_of(text: str) -> list[int]:
    """ "0-2,6" -> [0, 1, 2, 6]; "-" -> []."""
    ids: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        ids += range(int(first), int(last or first) + 1) if first else []
    return ids


@dataclass(frozen=True)
class Line:
    """`strategies` holds one name for all, or one a client. Shares and queues of nobody are positions in mq_all."""

    strategies: list[str]
    options: dict[str, Any]
    mq_all: list[MessageQueue]
    cid_all: list[str]
    shares: list[list[int]]
    starved: list[int]
    doubled: list[int]

    @classmethod
    def read(cls, text: str) -> "Line":
        how, queues, cids, shares, *rest = (part.strip() for part in text.split("|"))
        names, *given = how.split(" with ")
        options: dict[str, Any] = dict(option.split("=") for option in given[0].split()) if given else {}
        mq_all: list[MessageQueue] = []
        for part in queues.split(","):
            count, _, broker_name = part.strip().partition(" ")
            broker_name = "broker-a" if broker_name == "queues" else broker_name
            mq_all += [MessageQueue("orders", broker_name, queue_id) for queue_id in range(int(count))]
        odd = dict(part.split(" ") for part in rest[0].split("  ")) if rest else {}
        return cls(
            [name.strip() for name in names.split("+")],
            options,
            mq_all,
            cids.split(),
            [ids_of(share) for share in shares.split(";")],
            ids_of(odd.pop("starved", "-")),
            ids_of(odd.pop("doubled", "-")),
        )

    def arguments(self) -> dict[str, Any]:
        """The options as `allocate` takes them."""
        read = {
            "virtual_nodes": int,
            "consumer_idcs": lambda text: frozenset(text.split(",")),
            "config_queues": lambda text: [self.mq_all[position] for position in ids_of(text)],
            "client_version": str,
        }
        return {**ROOMS, **{name: read[name](text) for name, text in self.options.items()}}

    def strategy_of(self, index: int) -> str:
        return self.strategies[index % len(self.strategies)]

    def taken(self) -> list[list[int]]:
        """What allocate gives each entry of cid_all."""
        return [[self.mq_all.index(mq) for mq in self._share(index, cid)] for index, cid in enumerate(self.cid_all)]

    def _share(self, index: int, cid: str) -> list[MessageQueue]:
        return allocate(self.strategy_of(index), "g", cid, self.mq_all, self.cid_all, **self.arguments())


def odd_ones(taken: list[list[int]], count: int) -> tuple[list[int], list[int]]:
    """Of `count` queues, those in no share and those in several."""
    times = Counter(position for share in taken for position in set(share))
    return [i for i in range(count) if not times[i]], [i for i in range(count) if times[i] > 1]
