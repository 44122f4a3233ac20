"""How soon RocketMQ's own clocks let a watcher know that a finding holds, and that it is over."""

BOUNDS_MS = {
    "duplicate_client_id": 75_000,
    "consume_disabled": 45_000,
    "frozen_client": 70_000,
    "pull_stopped": 120_000,
    "write_only_queue": 80_000,
    "group_offline": 80_000,
    "member_not_subscribed": 110_000,
    "mixed_strategy": 80_000,
    "strategy_gap": 80_000,
    "split_view": 70_000,
    "stale_route": 80_000,
    "order_lock": 80_000,
    "consume_stopped": 240_000,
}
"""Cause of a starved queue to the time from its onset before which no watcher can be sure of it, in ms.

A twin: a heartbeat each (30 s) and 45 s without a pull, three long polls. Frozen: 70 s without a heartbeat, two and a
bit; a client cut off from one broker likewise. Stopped: 120 s, after which the client itself would drop the queue
(pull-expired). What changes with members and routes: 80 s, until each client has polled the route (30 s), sent a
heartbeat (30 s) and rebalanced (20 s). Not subscribed: a heartbeat more, for the members' heartbeats give and take the
topic by turns. Consumption stopped: 180 s without a commit, for one slow message is no fault, 40 s to be certain, and
20 s until the next pull reports the commit.
"""

BOUNDS_OF_KIND_MS = {
    "duplicate_client_id": 30_000,
    "double_consumed_queue": 80_000,
    "stalled_queue": 80_000,
    "split_view": 70_000,
    "inconsistent_subscription": 80_000,
    "group_offline": 80_000,
    "client_id_at_risk": 80_000,
    "order_at_risk": 30_000,
    "slave_read": 60_000,
    "offset_regression": 15_000,
    "broker_isolated": 30_000,
    "broker_evicted": 60_000,
    "no_available_broker": 30_000,
    "cluster_no_data": 120_000,
    "broker_no_data": 120_000,
    "broker_without_master": 60_000,
    "clock_skew": 120_000,
    "slow_collector": 300_000,
    "name_server_unreachable": 20_000,
}
"""The same by kind, for findings that are not starved queues.

A slave is read after the route poll (30 s) and a pull at the dead master that times out (30 s). Producers must avoid
their brokers for `broker_isolated_hold_ms`.
"""

RECOVERY_MS = {
    "starved_queue": 35_000,
    "stalled_queue": 35_000,
    "double_consumed_queue": 35_000,
    "duplicate_client_id": 30_000,
    "split_view": 30_000,
    "inconsistent_subscription": 30_000,
    "group_offline": 30_000,
    "client_id_at_risk": 30_000,
    "order_at_risk": 30_000,
    "slave_read": 15_000,
    "offset_regression": 15_000,
    "broker_isolated": 60_000,
    "broker_evicted": 60_000,
    "no_available_broker": 60_000,
    "cluster_no_data": 0,
    "broker_no_data": 0,
    "broker_without_master": 30_000,
    "clock_skew": 120_000,
    "slow_collector": 300_000,
    "name_server_unreachable": 0,
}
"""Kind to the time from a fault's end until the protocol lets a watcher know it, in ms.

Queues: the next pull (long poll, 15 s), and a rebalance (20 s) until the topic's other queues have moved as well.
Members: the next heartbeat (30 s); routes: the next poll (30 s). Reads from a slave and offsets: the next pull.
Producers: `broker_isolated_clear_ms`, for 5.1.4 and later try a slow broker again every few seconds. Brokers and
NameServers: the round that they answer. Clocks and rounds: as long as they took to be known. On top comes
`KindRules.recovering_ms`, for which a finding must stay away.
"""
