"""A NameServer and a broker as the tests start them: RocketMQ's own settings, sized for a laptop."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from streaming.kafka_io.embedded_kafka import free_port
from tests.rocketmq_server import NO_TLS, Server

CLUSTER = "DefaultCluster"

NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER = "org.apache.rocketmq.broker.BrokerStartup"

Lines = Mapping[str, object]


def start_name_server(
    jars: Path,
    folder: Path,
    port: int = 0,
    *,
    jar_set: str = "rocketmq",
    options: Sequence[str] = (NO_TLS,),
    lines: Lines | None = None,
) -> Server:
    """A NameServer on `port`, or on a free one; `folder` is made. `lines` are further ones of its configuration."""
    port = port or free_port()
    config = write_lines(folder.with_suffix(".properties"), {"listenPort": port, **(lines or {})})
    return Server(jars, folder, port, [NAME_SERVER, "-c", str(config)], "128m", jar_set=jar_set, options=options)


def start_broker(
    jars: Path, folder: Path, lines: Lines, *, jar_set: str = "rocketmq", options: Sequence[str] = (NO_TLS,)
) -> Server:
    """A broker with `lines` as its configuration (`broker_lines`); `folder` is made."""
    config = write_lines(folder.with_suffix(".properties"), lines)
    port = int(str(lines["listenPort"]))
    return Server(jars, folder, port, [BROKER, "-c", str(config)], "384m", jar_set=jar_set, options=options)


def broker_lines(broker_name: str, port: int, name_server: str, store: Path, broker_id: int = 0) -> dict[str, object]:
    """BrokerConfig and MessageStoreConfig; `broker_id` above 0 is a slave. HA listens on port + 1."""
    return {
        "brokerClusterName": CLUSTER,
        "brokerName": broker_name,
        "brokerId": broker_id,
        "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        "namesrvAddr": name_server,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "autoCreateTopicEnable": "true",
        "autoCreateSubscriptionGroup": "true",
        "mappedFileSizeCommitLog": 16 << 20,
        "mapedFileSizeCommitLog": 16 << 20,
        "mappedFileSizeConsumeQueue": 20 * 3000,
        "mapedFileSizeConsumeQueue": 20 * 3000,
        "maxMessageSize": 256
        << 10,  # each thread that puts or times a message has a buffer of its size, outside the heap
        "maxIndexNum": 4000,
        "maxHashSlotNum": 1000,
        "diskMaxUsedSpaceRatio": 99,
        "registerNameServerPeriod": 10_000,
        "transactionMetricFlushInterval": 200,  # a service that spins for so long after the start
        "timerFlushIntervalMs": 60_000,  # a seventh of a core for a wheel of delayed messages that nobody sends
    }


def write_lines(path: Path, lines: Lines) -> Path:
    """A properties file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path
