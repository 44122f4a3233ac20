"""Sends of one producer with a slow broker, with and without its fault strategy, and in a healthy cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rich.console import Console
from rich.table import Table

from udfs.alerts.prose import count
from udfs.rocketmq.route import PERM_READ, PERM_WRITE, QueueData
from udfs.rocketmq.topic_publish_info import TopicPublishInfo, to_topic_publish_info
from udfs.whatif.group import Group
from udfs.whatif.slow_broker import Sends, Traffic, play_sends

MOST_SENDS = 20_000
"""Three simulations of this number take about 2 s."""


@dataclass(frozen=True)
class SlowBroker:
    """A broker of the group's topic that answers in `latency_ms`. The writable queues equal the readable ones.

    Raises ValueError for a broker without queues of the topic, and for more than MOST_SENDS sends.
    """

    group: Group
    broker_name: str
    latency_ms: int
    traffic: Traffic

    def __post_init__(self) -> None:
        names = self.group.broker_names()
        if self.broker_name not in names:
            raise ValueError(
                f"--slow-broker {self.broker_name!r} has no queue of {self.group.topic}; choose {', '.join(names)}"
            )
        if self.traffic.sends_per_second * self.traffic.seconds > MOST_SENDS:
            raise ValueError(f"--rate times --seconds is above {MOST_SENDS}; lower one of them")

    def report(self) -> dict[str, Any]:
        """Return the three simulations and their verdict as JSON."""
        return {
            "verdict": self._verdict(),
            "broker_name": self.broker_name,
            "latency_ms": self.latency_ms,
            "client_version": ".".join(map(str, self.traffic.client_version)),
            "sends_per_second": self.traffic.sends_per_second,
            "seconds": self.traffic.seconds,
            **{name: _play(sends) for name, sends in self.plays.items()},
        }

    def print(self, console: Console) -> None:
        """Print the verdict and each broker's share of the sends."""
        console.print(self._verdict())
        table = Table()
        for name in ("broker", "all healthy", "slow, avoidance on", "slow, avoidance off"):
            table.add_column(name, justify="left" if name == "broker" else "right")
        for broker_name in self.group.broker_names():
            shares = [f"{sends.share(broker_name):.1%}" for sends in self.plays.values()]
            mark = f" ({self.latency_ms} ms)" if broker_name == self.broker_name else ""
            table.add_row(broker_name + mark, *shares)
        table.add_row("slow sends", *[str(sends.slow) for sends in self.plays.values()])
        table.add_row("failed sends", *[str(sends.failed) for sends in self.plays.values()])
        console.print(table)
        spans = self.plays["avoiding"].avoided_ms
        if spans:
            console.print(f"Avoided at seconds {_describe_spans(spans)} after the first send.")

    @cached_property
    def plays(self) -> dict[str, Sends]:
        """Return three simulations: healthy; slow with the fault strategy; slow without it."""
        info, slow = self._info(), {self.broker_name: self.latency_ms}
        avoiding = replace(self.traffic, send_latency_fault_enable=True)
        plain = replace(self.traffic, send_latency_fault_enable=False)
        return {
            "healthy": play_sends(info, {}, avoiding),
            "avoiding": play_sends(info, slow, avoiding),
            "plain": play_sends(info, slow, plain),
        }

    def _info(self) -> TopicPublishInfo:
        names = self.group.broker_names()
        numbers = {name: sum(mq.broker_name == name for mq in self.group.queues) for name in names}
        datas = [QueueData(name, n, n, PERM_READ | PERM_WRITE) for name, n in numbers.items()]
        return to_topic_publish_info(self.group.topic, datas, names)

    def _verdict(self) -> str:
        healthy, avoiding, plain = self.plays.values()
        who = f"a producer of {'.'.join(map(str, self.traffic.client_version))} with sendLatencyFaultEnable"
        if not avoiding.avoided_ms:
            return (
                f"At {self.latency_ms} ms {who} never avoids {self.broker_name}: "
                f"{avoiding.share(self.broker_name):.0%} of its sends still go there."
            )
        seconds = sum(end - begin for begin, end in avoiding.avoided_ms) / 1000
        return (
            f"At {self.latency_ms} ms {who} sends {avoiding.share(self.broker_name):.1%} of its messages to "
            f"{self.broker_name} instead of {healthy.share(self.broker_name):.1%}. It avoids the broker for "
            f"{seconds:.1f} of {self.traffic.seconds} s, in {count(len(avoiding.avoided_ms), 'span')}. "
            f"{avoiding.slow} of {avoiding.sends} sends are slow and {avoiding.failed} fail. Without this strategy, "
            f"which is off by default, {plain.slow} are slow and {plain.failed} fail."
        )


def _play(sends: Sends) -> dict[str, Any]:
    return {
        "sends": sends.sends,
        "tries": dict(sends.tries),
        "slow": sends.slow,
        "failed": sends.failed,
        "avoided_ms": [list(span) for span in sends.avoided_ms],
    }


def _describe_spans(spans: Sequence[tuple[int, int]], most: int = 6) -> str:
    reported = ", ".join(f"{begin / 1000:.1f} to {end / 1000:.1f}" for begin, end in spans[:most])
    return f"{reported} and {len(spans) - most} more" if len(spans) > most else reported
