"""DefaultMQProducerImpl.sendDefaultImpl as a rule: what each try leaves in the FaultItem, and whether another follows.

A synchronous send with the default settings of DefaultMQProducer, which tries up to three times.

Driven from outside, one call a moment; the network, the clock and the queues are the caller's:

    send = start_send(options, now_ms)
    while send.result is None:
        selection = select_one_message_queue(info, send.last_broker_name, index, items, now_ms, ...)
        send = start_try(send, selection.message_queue.broker_name, now_ms)
        if send.result is None:
            outcome = ...  # what the broker answers within send.timeout_ms
            send, update = end_try(send, outcome, now_ms)

Read in the tags 4.0.0 to 5.3.3, and in 5.5.0's byte code.
"""

from dataclasses import dataclass, replace

from udfs.rocketmq.version import NEWEST, ClientVersion, release_of

TIMES_TOTAL = 3
"""1 + DefaultMQProducer.retryTimesWhenSendFailed."""

SEND_STATUSES = frozenset({"SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"})
REMOTING_EXCEPTIONS = frozenset(
    {
        "RemotingException",
        "RemotingCommandException",
        "RemotingConnectException",
        "RemotingSendRequestException",
        "RemotingTimeoutException",
        "RemotingTooMuchRequestException",
    }
)
MQ_CLIENT_EXCEPTION = "MQClientException"
MQ_BROKER_EXCEPTION = "MQBrokerException"
TOO_MUCH_REQUEST = "RemotingTooMuchRequestException"

CLIENT_ERROR_CODES = {"RemotingConnectException": 10001, "RemotingTimeoutException": 10002, MQ_CLIENT_EXCEPTION: 10003}
"""ClientErrorCode of the MQClientException about the last try: connect, timeout, no such broker."""

_RETRIED = frozenset({1, 14, 16, 17, 204, 205})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a try, or the send, ended: a SendStatus or the exception's class name.

    `response_code`: the broker's for an MQBrokerException, a ClientErrorCode for what sendDefaultImpl throws; None
    where RocketMQ says -1.
    Raises ValueError for a name that is neither.
    """

    name: str
    response_code: int | None = None

    def __post_init__(self) -> None:
        if self.name not in _NAMES:
            raise ValueError(f"not a SendStatus, nor an exception of a send: {self.name}")


_NAMES = SEND_STATUSES | REMOTING_EXCEPTIONS | {MQ_CLIENT_EXCEPTION, MQ_BROKER_EXCEPTION}


@dataclass(frozen=True, slots=True)
class SendOptions:
    """The producer's release, and its settings with their defaults."""

    client_version: ClientVersion | str = NEWEST
    send_msg_timeout_ms: int = 3_000
    start_detector_enable: bool = False


@dataclass(frozen=True, slots=True)
class FaultUpdate:
    """The arguments of MQFaultStrategy.updateFaultItem."""

    broker_name: str
    current_latency_ms: int
    isolation: bool
    reachable: bool


@dataclass(frozen=True, slots=True)
class Send:
    """A send on its way. `times`: tries ended. `result` is None until it is over."""

    options: SendOptions
    begin_first_ms: int
    times: int = 0
    brokers_sent: tuple[str, ...] = ()
    begin_prev_ms: int = 0
    timeout_ms: int = 0
    result: Outcome | None = None

    @property
    def last_broker_name(self) -> str | None:
        return self.brokers_sent[-1] if self.brokers_sent else None

    @property
    def resets_index(self) -> bool:
        """With fault avoidance the next selection begins at a random index: every retry from 5.1.4 on."""
        return self.times > 0 and release_of(self.options.client_version) >= (5, 1, 4)


def retry_response_codes(client_version: ClientVersion | str = NEWEST) -> frozenset[int]:
    """DefaultMQProducer.retryResponseCodes; up to 4.9.1 the cases of a switch in sendDefaultImpl.

    SYSTEM_ERROR 1, SERVICE_NOT_AVAILABLE 14, NO_PERMISSION 16, TOPIC_NOT_EXIST 17, NO_BUYER_ID 204,
    NOT_IN_CURRENT_UNIT 205; SYSTEM_BUSY 2 from 5.3.0, GO_AWAY 1500 from 5.3.1.
    """
    release = release_of(client_version)
    if release >= (5, 3, 1):
        return _RETRIED | {2, 1500}
    return _RETRIED | {2} if release >= (5, 3, 0) else _RETRIED


def judge_broker(
    outcome: Outcome, client_version: ClientVersion | str = NEWEST, start_detector_enable: bool = False
) -> tuple[bool, bool]:
    """(isolation, reachable) of updateFaultItem after a try of sendDefaultImpl; up to 5.1.3 there is no reachable.

    A broker's refusal isolates and makes unreachable; a connection's failure isolates, and makes unreachable only
    where a detector can take that back. From 5.1.4 an MQClientException, such as a broker without address, does
    neither. A message stored badly (FLUSH_DISK_TIMEOUT) counts as sent.
    """
    has_reachable = release_of(client_version) >= (5, 1, 4)
    if outcome.name in REMOTING_EXCEPTIONS:
        return True, not (has_reachable and start_detector_enable)
    if outcome.name == MQ_BROKER_EXCEPTION:
        return True, not has_reachable
    return outcome.name == MQ_CLIENT_EXCEPTION and not has_reachable, True


def start_send(options: SendOptions, now_ms: int) -> Send:
    """DefaultMQProducer.send: the clock of sendMsgTimeout starts."""
    return Send(options, now_ms)


def start_try(send: Send, broker_name: str, now_ms: int) -> Send:
    """The next try, at this broker, with `timeout_ms` for it; or the end, when sendMsgTimeout is over.

    Up to 4.2.0 each try has all of sendMsgTimeout. From 4.3.0 they share it, and at exactly its end a try still goes
    out.
    """
    timeout_ms = send.options.send_msg_timeout_ms
    if release_of(send.options.client_version) >= (4, 3, 0):
        timeout_ms -= now_ms - send.begin_first_ms
    tried = replace(
        send, brokers_sent=(*send.brokers_sent, broker_name), begin_prev_ms=now_ms, timeout_ms=max(0, timeout_ms)
    )
    if timeout_ms < 0:
        return replace(tried, result=Outcome(TOO_MUCH_REQUEST))
    return tried


def end_try(send: Send, outcome: Outcome, now_ms: int) -> tuple[Send, FaultUpdate]:
    """What the try leaves in the broker's FaultItem, and the send after it.

    Raises ValueError when no try was started.
    """
    broker_name, options = send.last_broker_name, send.options
    if broker_name is None:
        raise ValueError("no try was started")
    isolation, reachable = judge_broker(outcome, options.client_version, options.start_detector_enable)
    update = FaultUpdate(broker_name, now_ms - send.begin_prev_ms, isolation, reachable)
    return replace(_after(send, outcome), times=send.times + 1), update


def _after(send: Send, outcome: Outcome) -> Send:
    is_refused = outcome.name == MQ_BROKER_EXCEPTION
    if outcome.name in SEND_STATUSES:
        return replace(send, result=outcome)
    if is_refused and outcome.response_code not in retry_response_codes(send.options.client_version):
        return replace(send, result=outcome)
    return replace(send, result=_give_up(outcome)) if send.times + 1 >= TIMES_TOTAL else send


def _give_up(outcome: Outcome) -> Outcome:
    """The MQClientException of "Send [3] times, still failed", with the code of the last try."""
    code = outcome.response_code if outcome.name == MQ_BROKER_EXCEPTION else CLIENT_ERROR_CODES.get(outcome.name)
    return Outcome(MQ_CLIENT_EXCEPTION, code)
