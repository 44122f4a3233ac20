"""One message on its way to one broker: what becomes of it, and when the producer knows."""

from dataclasses import dataclass

from streaming.simulator.broker import Broker
from streaming.simulator.client import Client
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.route import PERM_WRITE
from udfs.rocketmq.send import MQ_BROKER_EXCEPTION, MQ_CLIENT_EXCEPTION, SEND_OK, Outcome

SYSTEM_ERROR, NO_PERMISSION = 1, 16

_SENT = Outcome(SEND_OK)
_TIMEOUT = Outcome("RemotingTimeoutException")
_REFUSED = Outcome("RemotingConnectException")
_NO_ADDRESS = Outcome(MQ_CLIENT_EXCEPTION)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A try's outcome after `latency_ms`. A message may be stored although its producer was not told so in time."""

    outcome: Outcome
    latency_ms: int
    is_stored: bool = False


def deliver(client: Client, mq: MessageQueue, timeout_ms: int) -> Delivery:
    """What the broker, as it is now, makes of a message within the timeout."""
    broker = client.cluster.brokers[mq.broker_name]
    failed = _find_failure(client, broker, mq, timeout_ms)
    if failed is not None:
        return failed
    put = broker.commit_log.put(client.world.random, broker.has_slave)
    if broker.error is not None:
        return Delivery(Outcome(MQ_BROKER_EXCEPTION, SYSTEM_ERROR), min(put.latency_ms, timeout_ms))
    if put.latency_ms > timeout_ms:
        return Delivery(_TIMEOUT, timeout_ms + 1, is_stored=True)
    outcome = _SENT if put.send_status == SEND_OK else Outcome(put.send_status)
    return Delivery(outcome, put.latency_ms, is_stored=True)


def _find_failure(client: Client, broker: Broker, mq: MessageQueue, timeout_ms: int) -> Delivery | None:
    """Why the message does not get as far as the commit log; None: it does."""
    master = client.master(mq.broker_name)
    if master is None:
        return Delivery(_NO_ADDRESS, 0)
    if mq.broker_name in client.connections.cut or master.is_lost or broker.error == "RemotingException":
        return Delivery(_TIMEOUT, timeout_ms + 1)
    if not master.is_up:
        return Delivery(_REFUSED, client.world.network_ms())
    data = client.cluster.name_server.table[mq.topic].get(mq.broker_name)
    if data is not None and not data.perm & PERM_WRITE:
        return Delivery(Outcome(MQ_BROKER_EXCEPTION, NO_PERMISSION), client.world.network_ms())
    return None
