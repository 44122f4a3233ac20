"""Troubles: the verbs of a scenario."""

import inspect
import json
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from tests.lab.field.client import ClientError
from tests.lab.field.links import BLACK_HOLE, CUT, HEALTHY, Condition

VERSION_5_3_0 = 473
"""MQVersion's ordinal, what a Java client of that release sends."""

GET_CONSUMER_LIST_BY_GROUP, LOCK_BATCH_MQ, UNLOCK_BATCH_MQ = 38, 41, 42

STRANGER = "127.0.0.1@a-stranger"
RENEW_SECONDS = 5.0
TRIES = 20


class Channel:
    """One connection to a broker. Requests of the broker itself are skipped."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def request(self, code: int, ext: dict[str, str] | None = None, body: Any = None) -> Any:
        """The decoded body of the answer, None without one."""
        self._opaque += 1
        header = {
            "code": code,
            "language": "JAVA",
            "version": VERSION_5_3_0,
            "opaque": self._opaque,
            "flag": 0,
            "extFields": ext or {},
        }
        head = json.dumps(header).encode()
        tail = b"" if body is None else json.dumps(body).encode()
        self._socket.sendall(struct.pack(">ii", 4 + len(head) + len(tail), len(head)) + head + tail)
        while True:
            length, head_length = struct.unpack(">ii", self._receive(8))
            answer = json.loads(self._receive(head_length & 0xFFFFFF))
            said = self._receive(length - 4 - (head_length & 0xFFFFFF))
            if answer["flag"] & 1 and answer["opaque"] == self._opaque:
                return json.loads(said) if said else None

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("the broker closed the channel")
            received += chunk
        return received


def take_locks(
    address: str, broker_name: str, group: str, topic: str, queue_ids: Sequence[int], seconds: float
) -> None:
    """Hold the group's locks of these queues for `seconds`, and give them back. Raises TimeoutError if not granted.

    A broker gives a lock away when its holder unlocks it, or has not renewed it for 60 s. It does not ask who says so.
    """
    queues = [{"topic": topic, "brokerName": broker_name, "queueId": number} for number in queue_ids]

    def body(client_id: str) -> dict[str, Any]:
        return {"consumerGroup": group, "clientId": client_id, "mqSet": queues}

    with Channel(address) as channel:
        for _ in range(TRIES):
            listed = channel.request(GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}) or {}
            for client_id in listed.get("consumerIdList", ()):
                channel.request(UNLOCK_BATCH_MQ, body=body(client_id))
            if len(channel.request(LOCK_BATCH_MQ, body=body(STRANGER))["lockOKMQSet"]) == len(queues):
                break
        else:
            raise TimeoutError(f"the locks of {topic} on {broker_name} were not granted in {TRIES} tries")
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, RENEW_SECONDS))
            channel.request(LOCK_BATCH_MQ, body=body(STRANGER))
        channel.request(UNLOCK_BATCH_MQ, body=body(STRANGER))


class TroubleError(ValueError):
    """An unknown verb, or an argument that it does not take. The message names both."""


def start_supervised(play: Any, to: str) -> None:
    """Start a client as a supervisor does: a JVM whose only client did not start is started again, once.

    A client waits 3 s for its first route, and gives up on a machine that is too busy to answer. Raises ClientError.
    """
    client = play.clients[to]
    try:
        client.start()
    except ClientError:
        if client.spec.process:
            raise
        client.process.kill()
        client.start()


def restart(play: Any, to: str) -> None:
    """Stop and start a client, as a roll-out does."""
    play.clients[to].stop()
    start_supervised(play, to)


def lose_lock(play: Any, group: str, topic: str, broker: str, queue_ids: Sequence[int], seconds: float) -> None:
    """Give an orderly group's locks of these queues to a stranger for `seconds`."""
    take_locks(play.cluster.brokers[broker].address, broker, group, topic, queue_ids, seconds)


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
