"""What is wrong in a consumer group, a finder a kind. Causes come before what they explain, in the same tick."""

from collections.abc import Callable, Iterable

from udfs.alerts.alert import Finding
from udfs.groups.diagnosis import GROUP_OFFLINE
from udfs.groups.findings import brokers, members, queues
from udfs.groups.plan import DUPLICATE_CLIENT_ID, SPLIT_VIEW
from udfs.groups.snapshot import GroupSnapshot

FINDERS: tuple[tuple[str, Callable[[GroupSnapshot], Iterable[Finding]]], ...] = (
    (DUPLICATE_CLIENT_ID, members.find_duplicates),
    (GROUP_OFFLINE, members.find_group_offline),
    (SPLIT_VIEW, members.find_split_view),
    (queues.STARVED_QUEUE, queues.find_starved),
    (queues.STALLED_QUEUE, queues.find_stalled),
    (queues.DOUBLE_CONSUMED_QUEUE, queues.find_double_consumed),
    (members.INCONSISTENT_SUBSCRIPTION, members.find_inconsistent_subscription),
    (brokers.SLAVE_READ, brokers.find_slave_reads),
    (queues.OFFSET_REGRESSION, queues.find_regressions),
    (brokers.ORDER_AT_RISK, brokers.find_orders_at_risk),
    (members.CLIENT_ID_AT_RISK, members.find_client_ids_at_risk),
)
"""Kind and finder, numbered 1 to 11 in the order of evaluation."""
