"""Troubles: the verbs of a scenario, each logged with the times at which it began and ended."""

import inspect
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.field.client import FieldClient
from tests.field.client_process import ClientError
from tests.field.cluster import FieldCluster
from tests.field.links import EVERY, Links
from tests.field.queue_locks import take_locks
from tests.field.service_process import ServiceProcess

LOG = "troubles.jsonl"


class Stage(Protocol):
    """The parts that a trouble may touch. `link_name` is a client's name among the links."""

    @property
    def clients(self) -> Mapping[str, FieldClient]: ...
    @property
    def cluster(self) -> FieldCluster: ...
    @property
    def links(self) -> Links: ...
    @property
    def collector(self) -> ServiceProcess: ...
    @property
    def folder(self) -> Path: ...

    def link_name(self, client: str) -> str: ...


class TroubleError(ValueError):
    """An unknown verb, or an argument that it does not take. The message names both."""


def start_supervised(stage: Stage, to: str) -> None:
    """Start a client as a supervisor does: a JVM whose only client did not start is started again, once.

    A client waits 3 s for its first route, and gives up on a machine that is too busy to answer. Raises ClientError.
    """
    client = stage.clients[to]
    try:
        client.start()
    except ClientError:
        if client.spec.process:
            raise
        client.kill()
        client.start()


def restart(stage: Stage, to: str) -> None:
    """Stop and start a client, as a roll-out does."""
    stage.clients[to].stop()
    start_supervised(stage, to)


def freeze_slices(stage: Stage, to: str, seconds: float, stopped_ms: int = 1_500, running_ms: int = 500) -> None:
    """Stop and continue a client's JVM in turn for `seconds`, as a machine that gives it little time."""
    client, deadline = stage.clients[to], time.monotonic() + seconds
    try:
        while True:
            client.freeze()
            time.sleep(stopped_ms / 1000)
            client.thaw()
            if time.monotonic() >= deadline or not client.is_alive():
                return
            time.sleep(running_ms / 1000)
    finally:
        client.thaw()


def alter_topic(
    stage: Stage,
    topic: str,
    broker: str | None = None,
    read_queue_nums: int | None = None,
    write_queue_nums: int | None = None,
    perm: int | None = None,
) -> None:
    """Run `mqadmin updateTopic` on one master or on every one; None leaves a value unchanged."""
    stage.cluster.alter_topic(
        topic, broker, read_queue_nums=read_queue_nums, write_queue_nums=write_queue_nums, perm=perm
    )


def lose_lock(stage: Stage, group: str, topic: str, broker: str, queue_ids: Sequence[int], seconds: float) -> None:
    """Give an orderly group's locks of these queues to a stranger for `seconds`."""
    master = stage.cluster.brokers[broker]
    take_locks(master.address, master.broker_name, group, topic, queue_ids, seconds)


def restart_collector(stage: Stage, id: str = "") -> None:
    """Restart the collector; with `id` under another `collector.id`, as its replacement on another host."""
    stage.collector.restart({"BALANCEWATCH_COLLECTOR__ID": id} if id else {})


def _link(stage: Stage, client: str) -> str:
    return EVERY if client == EVERY else stage.link_name(client)


VERBS: dict[str, Callable[..., None]] = {
    # a client, by name; `stop` unregisters at the brokers, `gc` and `freeze` are SIGSTOP
    "start": start_supervised,
    "stop": lambda stage, to: stage.clients[to].stop(),
    "restart": restart,
    "kill": lambda stage, to: stage.clients[to].kill(),
    "freeze": lambda stage, to: stage.clients[to].freeze(),
    "thaw": lambda stage, to: stage.clients[to].thaw(),
    "freeze_slices": freeze_slices,
    "gc": lambda stage, to, seconds: stage.clients[to].command(f"gc {seconds}"),
    # its listener, or a producer's sending, blocks
    "hang": lambda stage, to: stage.clients[to].command("hang"),
    "unhang": lambda stage, to: stage.clients[to].command("unhang"),
    "suspend": lambda stage, to: stage.clients[to].command("suspend"),
    "resume": lambda stage, to: stage.clients[to].command("resume"),
    "consume_ms": lambda stage, to, ms: stage.clients[to].command(f"consume_ms {ms}"),
    "rate_per_s": lambda stage, to, rate: stage.clients[to].command(f"rate_per_s {rate}"),
    "subscribe": lambda stage, to, topic, expression="*": stage.clients[to].command(f"subscribe {topic} {expression}"),
    "unsubscribe": lambda stage, to, topic: stage.clients[to].command(f"unsubscribe {topic}"),
    # the links between a client and a server of FieldCluster.servers; "*" is all of them
    "cut": lambda stage, to, broker: stage.links.cut(_link(stage, to), broker),
    "blackhole": lambda stage, to, broker: stage.links.blackhole(_link(stage, to), broker),
    "delay": lambda stage, to, broker, ms: stage.links.delay(_link(stage, to), broker, ms),
    "throttle": lambda stage, to, broker, bytes_per_s: stage.links.throttle(_link(stage, to), broker, bytes_per_s),
    "heal": lambda stage, to, broker: stage.links.heal(_link(stage, to), broker),
    # a broker; NameServers keep a frozen one in routes for 120 s, MQFaultStrategy's first step is 550 ms
    "broker_start": lambda stage, to: stage.cluster.start_broker(to),
    "broker_stop": lambda stage, to: stage.cluster.brokers[to].server.stop(),
    "broker_kill": lambda stage, to: stage.cluster.brokers[to].server.kill(),
    "broker_freeze": lambda stage, to: stage.cluster.brokers[to].server.freeze(),
    "broker_slow": lambda stage, to, stopped_ms=1_500, running_ms=500: stage.cluster.brokers[to].server.slow(
        stopped_ms, running_ms
    ),
    "broker_thaw": lambda stage, to: stage.cluster.brokers[to].server.thaw(),
    "broker_delay": lambda stage, to, ms: stage.links.delay(EVERY, to, ms),
    "name_server_start": lambda stage, to: stage.cluster.start_name_server(to),
    "name_server_stop": lambda stage, to: stage.cluster.name_servers[to].stop(),
    "name_server_kill": lambda stage, to: stage.cluster.name_servers[to].kill(),
    # topics and groups; a topic that was deleted begins at offset 0 again
    "consume_enable": lambda stage, group, enabled, broker=None: stage.cluster.set_consume_enable(
        group, enabled, broker
    ),
    "topic": alter_topic,
    "create_topic": lambda stage, topic, queues=4: stage.cluster.create_topic(topic, queues),
    "delete_topic": lambda stage, topic: stage.cluster.delete_topic(topic),
    "delete_group": lambda stage, group: stage.cluster.delete_group(group),
    "lose_lock": lose_lock,
    # `balancewatch collect`
    "collector_start": lambda stage: stage.collector.start(),
    "collector_stop": lambda stage: stage.collector.stop(),
    "collector_kill": lambda stage: stage.collector.kill(),
    "collector_restart": restart_collector,
}
"""By name. The parameters after `stage` are the arguments in a scenario."""

_WRITING = threading.Lock()


def check_trouble(do: str, arguments: Mapping[str, Any]) -> None:
    """Raises TroubleError for an unknown verb, and for arguments that it does not take or lacks."""
    if do not in VERBS:
        raise TroubleError(f"trouble {do!r} is not one of {', '.join(sorted(VERBS))}")
    try:
        inspect.signature(VERBS[do]).bind(None, **arguments)
    except TypeError as error:
        raise TroubleError(f"trouble {do!r}: {error}") from None


def make_trouble(stage: Stage, do: str, **arguments: Any) -> None:
    """Return when it is done and in the stage's LOG; one that failed is logged too. Raises TroubleError."""
    check_trouble(do, arguments)
    begun = _now_ms()
    failure: dict[str, str] = {}
    try:
        VERBS[do](stage, **arguments)
    except BaseException as error:
        failure = {"failed": f"{type(error).__name__}: {error}"}
        raise
    finally:
        line = json.dumps({"t": begun, "ended": _now_ms(), "do": do, **arguments, **failure})
        with _WRITING, (stage.folder / LOG).open("a") as log:
            log.write(line + "\n")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
