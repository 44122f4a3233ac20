"""Slave reads: when a master suggests its slave, and which node a client asks (PullMessageProcessor, PullAPIWrapper).

A pull further behind the end of the commit log than 40 % of the machine's memory reads from disk; the answer suggests
where to pull next. Without slaveReadEnable (the default) no slave is suggested, and a slave refuses every pull, also
when its master is gone. Mirrors 4.0 to 5.5.
"""

from collections.abc import Collection
from dataclasses import dataclass

from udfs.rocketmq.version import NEWEST, ClientVersion

MASTER_ID = 0


@dataclass(frozen=True, slots=True)
class SlaveReadConfig:
    """BrokerConfig.slaveReadEnable of one broker, and two fields of the group's SubscriptionGroupConfig there."""

    slave_read_enable: bool = False
    broker_id: int = MASTER_ID
    which_broker_when_consume_slowly: int = 1


def suggest_which_broker_id(
    slave_suggested: bool,
    config: SlaveReadConfig,
    *,
    asked_broker_id: int = MASTER_ID,
    has_master: bool = True,
    broker_version: ClientVersion = NEWEST,
) -> int:
    """PullMessageProcessor: the broker id the answer suggests for the next pull.

    `asked_broker_id` is the id of the broker that answers, `has_master` whether its master is there. A slave sends a
    group that is no longer far behind back to the group's broker_id; from 5.0 back to the master, if there is one.
    """
    if not config.slave_read_enable:
        return MASTER_ID
    if slave_suggested:
        return config.which_broker_when_consume_slowly
    if broker_version >= (5, 0, 0) and asked_broker_id != MASTER_ID and has_master:
        return MASTER_ID
    return config.broker_id


def may_pull(broker_id: int, slave_read_enable: bool) -> bool:
    """PullMessageProcessor.rejectRequest: a slave without slaveReadEnable answers every pull SYSTEM_BUSY."""
    return broker_id == MASTER_ID or slave_read_enable


def recalculate_pull_from_which_node(
    suggested_broker_id: int, broker_ids: Collection[int], client_version: ClientVersion = NEWEST
) -> int | None:
    """PullAPIWrapper and findBrokerAddressInSubscribe: the id of the broker the client asks; None: there is none.

    `suggested_broker_id` is the last answer's, MASTER_ID before the first; `broker_ids` those in the route. A
    missing slave is replaced by the one with the next id (4.8.0), anything else that is missing by whoever is first:
    with the master gone a client asks the slave, and there it commits nothing with its pulls.
    """
    if suggested_broker_id in broker_ids:
        return suggested_broker_id
    knows_next = suggested_broker_id != MASTER_ID and client_version >= (4, 8, 0)
    if knows_next and suggested_broker_id + 1 in broker_ids:
        return suggested_broker_id + 1
    return min(broker_ids, default=None)
