"""What is wrong in a consumer group, a finder a kind. Causes come before what they explain, in the same tick."""

from collections.abc import Callable

from udfs.groups.diagnosis import GROUP_OFFLINE
from udfs.groups.findings.brokers import ORDER_AT_RISK, SLAVE_READ, find_orders_at_risk, find_slave_reads
from udfs.groups.findings.duplicates import find_duplicates
from udfs.groups.findings.members import (
    CLIENT_ID_AT_RISK,
    INCONSISTENT_SUBSCRIPTION,
    find_client_ids_at_risk,
    find_group_offline,
    find_inconsistent_subscription,
)
from udfs.groups.findings.queues import (
    DOUBLE_CONSUMED_QUEUE,
    OFFSET_REGRESSION,
    STALLED_QUEUE,
    find_double_consumed,
    find_regressions,
    find_stalled,
)
from udfs.groups.findings.starved import STARVED_QUEUE, find_starved
from udfs.groups.findings.views import find_split_view
from udfs.groups.inference import SPLIT_VIEW
from udfs.groups.plan import DUPLICATE_CLIENT_ID
from udfs.groups.snapshot import Findings, GroupSnapshot

FINDERS: tuple[tuple[str, Callable[[GroupSnapshot], Findings]], ...] = (
    (DUPLICATE_CLIENT_ID, find_duplicates),
    (GROUP_OFFLINE, find_group_offline),
    (SPLIT_VIEW, find_split_view),
    (STARVED_QUEUE, find_starved),
    (STALLED_QUEUE, find_stalled),
    (DOUBLE_CONSUMED_QUEUE, find_double_consumed),
    (INCONSISTENT_SUBSCRIPTION, find_inconsistent_subscription),
    (SLAVE_READ, find_slave_reads),
    (OFFSET_REGRESSION, find_regressions),
    (ORDER_AT_RISK, find_orders_at_risk),
    (CLIENT_ID_AT_RISK, find_client_ids_at_risk),
)
"""Kind and finder, numbered 1 to 11 in the order of evaluation."""
