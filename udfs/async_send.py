"""MQClientAPIImpl.sendMessageAsync as a rule: what an ASYNC send's answer leaves in the FaultItem, and its retries.

sendDefaultImpl hands an ASYNC message over once and, before any answer, updates the first broker's FaultItem as after
a quick success (send.end_try of HANDED_OVER): up to 5.1.3 that alone makes a shut out broker available again, even
when all that happened is that it could not be reached and the message went to another. What an answer says is recorded
when it comes, and retries go on from there, without a new index.
"""

from dataclasses import dataclass, replace

from udfs.send import (
    INTERRUPTED_EXCEPTION,
    MQ_BROKER_EXCEPTION,
    MQ_CLIENT_EXCEPTION,
    SEND_STATUSES,
    TOO_MUCH_REQUEST,
    FaultUpdate,
    Outcome,
)
from udfs.version import NEWEST, ClientVersion, release_of

RETRY_LATENCY_MS = 3_000
"""What up to 4.9.2 is recorded of a retry that could not be handed over, whatever it took."""


@dataclass(frozen=True, slots=True)
class AsyncSend:
    """An ASYNC send that sendDefaultImpl has handed over. `timeout_ms` is what is left; `result` None while it runs.

    `failed_broker_name` is the broker of the try before this one, None on the first.
    """

    broker_name: str
    timeout_ms: int
    client_version: ClientVersion | str = NEWEST
    retry_times_when_send_async_failed: int = 2
    retries: int = 0
    failed_broker_name: str | None = None
    result: Outcome | None = None


def end_async_try(
    send: AsyncSend, outcome: Outcome, cost_ms: int, handed_over: bool = True
) -> tuple[AsyncSend, FaultUpdate | None]:
    """The send after this try's answer, and the update of a FaultItem, None where RocketMQ forgets it.

    `handed_over` False: invokeAsync itself threw, so nothing was sent. From 4.9.3 that marks the broker unreachable
    (5.1.4 on) and is retried. Up to 4.9.2 on the first try sendDefaultImpl catches it (send.end_try); on a retry the
    broker of the try before is blamed for 3 s, and a RemotingTooMuchRequestException or an interruption ends it.
    A refusal by the broker is never retried. The result is what SendCallback is told: an MQClientException where no
    answer came. Raises ValueError for a first try up to 4.9.2 that was not handed over.
    """
    release = release_of(send.client_version)
    if outcome.name in SEND_STATUSES:
        return replace(send, result=outcome), FaultUpdate(send.broker_name, cost_ms, False, True)
    if not handed_over and release < (4, 9, 3):
        return _not_handed_over(send, outcome)
    update = FaultUpdate(send.broker_name, cost_ms, True, handed_over or release < (5, 1, 4))
    is_retried = outcome.name != MQ_BROKER_EXCEPTION and not (
        handed_over and outcome.name == TOO_MUCH_REQUEST and release >= (5, 3, 0)
    )
    left_ms = send.timeout_ms - cost_ms if release >= (4, 7, 0) else 0
    told = Outcome(MQ_CLIENT_EXCEPTION) if handed_over and outcome.name != MQ_BROKER_EXCEPTION else outcome
    return _retried(replace(send, timeout_ms=left_ms), told, is_retried), update


def retry_at(send: AsyncSend, broker_name: str) -> AsyncSend:
    """The next try at the broker selected with `send.broker_name` as the last; without a selector's own queue."""
    return replace(send, broker_name=broker_name, failed_broker_name=send.broker_name)


def _not_handed_over(send: AsyncSend, outcome: Outcome) -> tuple[AsyncSend, FaultUpdate | None]:
    if send.failed_broker_name is None:
        raise ValueError("up to 4.9.2 sendDefaultImpl ends a first try that was not handed over")
    if outcome.name in (TOO_MUCH_REQUEST, INTERRUPTED_EXCEPTION):
        return replace(send, retries=send.retries + 1, result=outcome), None
    update = FaultUpdate(send.failed_broker_name, RETRY_LATENCY_MS, True, True)
    return _retried(send, outcome, True), update


def _retried(send: AsyncSend, outcome: Outcome, is_retried: bool) -> AsyncSend:
    """onExceptionImpl: another try while there are retries left; from 5.3.2 also while there is time left."""
    retries = send.retries + 1
    has_time = send.timeout_ms > 0 or release_of(send.client_version) < (5, 3, 2)
    goes_on = is_retried and has_time and retries <= send.retry_times_when_send_async_failed
    return replace(send, retries=retries, result=None if goes_on else outcome)
