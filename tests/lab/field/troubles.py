"""Troubles: the verbs of a scenario."""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.lab.field.client import ClientError
from tests.lab.field.links import BLACK_HOLE, CUT, HEALTHY, Condition

STRANGER = "127.0.0.1@a-stranger"
RENEW_SECONDS = 5.0
TRIES = 20


class TroubleError(ValueError):
    """An unknown verb, or an argument that it does not take. The message names both."""


def start_supervised(play: Any, to: str) -> None:
    """Start a client as a supervisor does: a JVM in which no other client lives is started again, once.

    A client waits 3 s for its first route, and gives up on a machine that is too busy to answer. Raises ClientError.
    """
    client = play.clients[to]
    try:
        client.start()
    except ClientError:
        if client.process.living:
            raise
        client.process.kill()
        client.start()


def restart(play: Any, to: str) -> None:
    """Stop and start a client, as a roll-out does."""
    play.clients[to].stop()
    start_supervised(play, to)


def lose_lock(play: Any, group: str, topic: str, broker: str, queue_ids: Sequence[int], seconds: float) -> None:
    """Give an orderly group's locks of these queues to a stranger for `seconds`. Raises TimeoutError if not granted.

    A broker gives a lock away when its holder unlocks it, or has not renewed it for 60 s.
    """
    operator, address = play.cluster.operator, play.cluster.brokers[broker].address
    queues = [(topic, broker, number) for number in queue_ids]
    for _ in range(TRIES):
        for client_id in operator.members(address, group):
            operator.unlock(address, group, client_id, queues)
        if operator.lock(address, group, STRANGER, queues) == len(queues):
            break
    else:
        raise TimeoutError(f"the locks of {topic} on {broker} were not granted in {TRIES} tries")
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, RENEW_SECONDS))
        operator.lock(address, group, STRANGER, queues)
    operator.unlock(address, group, STRANGER, queues)


VERBS: dict[str, Callable[..., None]] = {
    # a client, by name; `stop` unregisters at the brokers, `gc` and `freeze` are SIGSTOP
    "start": start_supervised,
    "stop": lambda play, to: play.clients[to].stop(),
    "restart": restart,
    "kill": lambda play, to: play.clients[to].process.kill(),
    "freeze": lambda play, to: play.clients[to].process.freeze(),
    "thaw": lambda play, to: play.clients[to].process.thaw(),
    "gc": lambda play, to, seconds: play.clients[to].command(f"gc {seconds}"),
    # its listener, or a producer's sending, blocks
    "hang": lambda play, to: play.clients[to].command("hang"),
    "unhang": lambda play, to: play.clients[to].command("unhang"),
    "suspend": lambda play, to: play.clients[to].command("suspend"),
    "resume": lambda play, to: play.clients[to].command("resume"),
    "consume_ms": lambda play, to, ms: play.clients[to].command(f"consume_ms {ms}"),
    "rate_per_s": lambda play, to, rate: play.clients[to].command(f"rate_per_s {rate}"),
    # the links between a client and a server of FieldCluster.servers
    "cut": lambda play, to, broker: play.links.set_condition(play.link_name(to), broker, CUT),
    "blackhole": lambda play, to, broker: play.links.set_condition(play.link_name(to), broker, BLACK_HOLE),
    "delay": lambda play, to, broker, ms: play.links.set_condition(play.link_name(to), broker, Condition(delay_ms=ms)),
    "heal": lambda play, to, broker: play.links.set_condition(play.link_name(to), broker, HEALTHY),
    # a broker; NameServers keep a frozen one in routes for 120 s, MQFaultStrategy's first step is 550 ms
    "broker_start": lambda play, to: play.cluster.start_broker(to),
    "broker_stop": lambda play, to: play.cluster.brokers[to].stop(),
    "broker_kill": lambda play, to: play.cluster.brokers[to].kill(),
    "broker_freeze": lambda play, to: play.cluster.brokers[to].freeze(),
    "broker_slow": lambda play, to, stopped_ms=1_500, running_ms=500: play.cluster.brokers[to].slow(
        stopped_ms, running_ms
    ),
    "broker_thaw": lambda play, to: play.cluster.brokers[to].thaw(),
    "name_server_start": lambda play, to: play.cluster.start_name_server(to),
    "name_server_stop": lambda play, to: play.cluster.name_servers[to].stop(),
    # topics and groups; a topic that was deleted begins at offset 0 again
    "consume_enable": lambda play, group, enabled, broker=None: play.cluster.set_consume_enable(group, broker, enabled),
    "topic": lambda play, topic, broker=None, read_queue_nums=None, write_queue_nums=None, perm=None: (
        play.cluster.alter_topic(topic, broker, read_queue_nums, write_queue_nums, perm)
    ),
    "create_topic": lambda play, topic, queues=4: play.cluster.create_topic(topic, queues),
    "delete_topic": lambda play, topic: play.cluster.delete_topic(topic),
    "delete_group": lambda play, group: play.cluster.delete_group(group),
    "lose_lock": lose_lock,
    # `balancewatch collect`; `id` is another `collector.id`, as of its replacement on another host
    "collector_start": lambda play: play.collector.start(),
    "collector_stop": lambda play: play.collector.stop(),
    "collector_kill": lambda play: play.collector.kill(),
    "collector_restart": lambda play, id="": play.collector.restart({"BALANCEWATCH_COLLECTOR__ID": id} if id else {}),
}
"""By name. The parameters after `play` are the arguments in a scenario."""


def check_trouble(do: str, arguments: Mapping[str, Any]) -> None:
    """Raises TroubleError for an unknown verb, and for arguments that it does not take or lacks."""
    if do not in VERBS:
        raise TroubleError(f"trouble {do!r} is not one of {', '.join(sorted(VERBS))}")
    try:
        inspect.signature(VERBS[do]).bind(None, **arguments)
    except TypeError as error:
        raise TroubleError(f"trouble {do!r}: {error}") from None


def make_trouble(play: Any, do: str, **arguments: Any) -> None:
    """Return when it is done; `play` is the Play whose parts it touches. Raises TroubleError."""
    check_trouble(do, arguments)
    VERBS[do](play, **arguments)
