"""Who pulls a queue now: channels with a pull within `pull_silence_ms`, by the names that heartbeats give them."""

import bisect
from collections.abc import Sequence

from udfs.alerts.rules import Rules
from udfs.groups.queue_state import Puller, QueueState
from udfs.groups.state import GroupState
from udfs.rocketmq.membership import Membership
from udfs.rocketmq.model import queue_order


def observed_pullers(queue_state: QueueState, now_ms: int, pull_silence_ms: int) -> list[Puller]:
    """Who pulled within the window, sorted by address."""
    return [
        puller for _, puller in sorted(queue_state.pullers.items()) if puller.last_pull_ms + pull_silence_ms > now_ms
    ]


def observed_owners(pullers: Sequence[Puller]) -> list[str]:
    """Return ClientIds: with the address if several channels carry one, and the address alone if the id is unknown."""
    if len(pullers) == 1:
        return [pullers[0].client_id or pullers[0].client_addr or "unknown"]
    ids = [puller.client_id for puller in pullers]
    return sorted(
        {
            f"{puller.client_id} at {puller.client_addr}"
            if puller.client_addr and ids.count(puller.client_id) > 1 and puller.client_id
            else puller.client_id or puller.client_addr or "unknown"
            for puller in pullers
        }
    )


def refresh_pullers(
    state: GroupState, name: str, queue_state: QueueState, late: frozenset[str], now_ms: int, rules: Rules
) -> list[Puller]:
    """Who pulls the queue now, with ClientIds where their channel is known; others are forgotten. `late` are clients
    whose heartbeats are late.

    Who is held back by a full cache, and still a member, counts for as long as a commit may stand still.
    """
    pullers = observed_pullers(queue_state, now_ms, rules.pull_silence_ms)
    if not pullers and queue_state.pullers and is_held_back(queue_state, now_ms, rules):
        newest = max(queue_state.pullers.values(), key=lambda puller: puller.last_pull_ms)
        is_member = _has_channel(state.membership, name, newest) and newest.client_id not in late
        pullers = [newest] if is_member and newest.last_pull_ms + rules.consume_silence_ms > now_ms else []
    for puller in pullers:
        puller.client_id = puller.client_id or _client_at(state.membership, name, puller.client_addr)
    if pullers:
        newest = max(pullers, key=lambda puller: puller.last_pull_ms)
        queue_state.last_client_id = newest.client_id or queue_state.last_client_id
    queue_state.pullers = {puller.client_addr or puller.client_id or "": puller for puller in pullers}
    for puller in pullers:
        if puller.client_id:
            place = bisect.bisect_left(state.seen_pulling, puller.client_id)
            if state.seen_pulling[place : place + 1] != [puller.client_id]:
                state.seen_pulling.insert(place, puller.client_id)
    return pullers


def is_held_back(queue_state: QueueState, now_ms: int, rules: Rules) -> bool:
    """Its client's cache was full at the newest pull, and its commit is not known to stand still for long."""
    known = queue_state.consumption
    return known is not None and known.is_cache_full and known.stands_ms(now_ms) < rules.consume_silence_ms


def _has_channel(membership: Membership, queue: str, puller: Puller) -> bool:
    view = membership.views.get(queue_order(queue)[0], {})
    return puller.client_addr in view or any(member.client_id == puller.client_id for member in view.values())


def _client_at(membership: Membership, queue: str, client_addr: str | None) -> str | None:
    broker_name, _ = queue_order(queue)
    member = membership.views.get(broker_name, {}).get(client_addr or "")
    return member.client_id if member else None
