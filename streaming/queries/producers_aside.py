"""What a rule raised at is set aside among the sends too: a broker's items or a cluster's fleet, told once.

They stay as they were before the batch, whose attempts are lost to them, and are tried again with the next batch.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from schemas.events import SEND_LATENCIES
from streaming.queries.chunk import Reject
from streaming.queries.set_aside import describe
from streaming.queries.shard_rows import alert_row, quarantine_row
from streaming.queries.shard_store import RETRIED
from streaming.warehouse.rows import Rows
from udfs.alerts.failed_rule import RULE_FAILED, find_failure
from udfs.alerts.life import Evaluation, Reason, end, step
from udfs.alerts.rules import Rules
from udfs.producers.board import Board
from udfs.producers.fleet import Fleet

Kept = TypeVar("Kept", Board, Fleet)


def advance_or_set_aside(
    state: Kept,
    read: Callable[[], Kept],
    advance: Callable[[Kept], Rows],
    labels: dict[str, str],
    now_ms: int,
    rules: Rules,
) -> tuple[Kept, Rows]:
    """The state after the batch, and its rows. `state` is changed in place; `read` gives it anew, as it was before."""
    try:
        rows = advance(state)
    except RETRIED:
        raise
    except Exception as error:  # whatever a rule raises must not end the query
        state = read()
        return state, set_aside(state, error, labels, now_ms, rules)
    rows.setdefault("alerts", []).extend(come_back(state, now_ms))
    return state, rows


def set_aside(state: Board | Fleet, error: Exception, labels: dict[str, str], now_ms: int, rules: Rules) -> Rows:
    """What is told of it, all that the batch gives. `state` is as it was before the batch."""
    failure = describe(error)
    is_new = RULE_FAILED not in state.incidents
    findings = {RULE_FAILED: find_failure(labels, failure, now_ms)}
    reported = step(state.incidents, {}, RULE_FAILED, findings, lambda _: Evaluation(now_ms), rules)
    rows: Rows = {"alerts": [alert_row(transition) for transition in reported]}
    if is_new:
        reason = f"{RULE_FAILED}: {failure.message} in {failure.trace}"[:1_000]
        rows["quarantine"] = [quarantine_row(SEND_LATENCIES, 0, Reject(0, now_ms, None, [reason]))]
    return rows


def come_back(state: Board | Fleet, now_ms: int) -> Iterator[dict[str, Any]]:
    """The alert row of a batch that raised nothing after one that did."""
    failed = state.incidents.pop(RULE_FAILED, None)
    if failed is not None:
        yield alert_row(end(failed, Reason.RECOVERED, Evaluation(now_ms)))
