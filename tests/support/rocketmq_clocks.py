"""How fast RocketMQ's clocks go in a test, and the rules that mirror them: all are divided by one factor.

RocketMQ 5.5.0 has a setting for each clock that is here. The clocks of members that fall silent stay as in production,
for no test waits for one: channelExpiredTimeout (120 s) and its scan every 10 s, pull-expired (120 s), queue locks.
"""

from dataclasses import dataclass
from pathlib import Path

from conf.settings import Settings


@dataclass(frozen=True)
class Clocks:
    """`factor` 1 is as in production, 4 is four times as fast. Figures are those of RocketMQ's own defaults."""

    factor: int

    @property
    def heartbeat_ms(self) -> int:
        """heartbeatBrokerInterval of a client."""
        return 30_000 // self.factor

    @property
    def route_poll_ms(self) -> int:
        """pollNameServerInterval of a client."""
        return 30_000 // self.factor

    @property
    def persist_ms(self) -> int:
        """persistConsumerOffsetInterval of a client."""
        return 5_000 // self.factor

    @property
    def collect_seconds(self) -> float:
        """`collect --interval`: collector.interval_seconds."""
        return Settings.load().collector.interval_seconds / self.factor

    def client_options(self) -> list[str]:
        """System properties of a client's JVM: RebalanceService's waitInterval and minInterval."""
        return [
            f"-Drocketmq.client.rebalance.waitInterval={20_000 // self.factor}",
            f"-Drocketmq.client.rebalance.minInterval={1_000 // self.factor}",
        ]

    def broker_config(self) -> dict[str, str]:
        """BrokerConfig: how long a pull of an empty queue is held; a running broker takes it at once.

        DefaultLitePullConsumer has no setting for its long poll of 20 s, which a broker that looks every 5 s ends after
        20 to 25 s. A broker with longPollingEnable = false takes shortPollingTimeMills for both: it ends a pull after
        one to two of them.
        """
        return {
            "longPollingEnable": str(self.factor == 1).lower(),
            "shortPollingTimeMills": str(10_000 // self.factor),
        }

    def write_rules(self, path: Path) -> Path:
        """A rules file at `path` in which every time of `[rules]` is the default's, divided."""
        rules = Settings.load().rules.thresholds()
        tables = {"": rules} | {f'[kinds."{kind}"]': values for kind, values in rules["kinds"].items()}
        lines = [
            line
            for table, values in tables.items()
            for line in (table, *(f"{key} = {ms // self.factor}" for key, ms in values.items() if key.endswith("_ms")))
        ]
        path.write_text("\n".join([*lines, ""]))
        return path
