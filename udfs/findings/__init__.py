"""What is wrong in a consumer group, a finder a kind. Causes come before what they explain, in the same tick."""

from collections.abc import Callable

from udfs.diagnosis import GROUP_OFFLINE
from udfs.explanation import SPLIT_VIEW
from udfs.findings.brokers import ORDER_AT_RISK, SLAVE_READ, find_orders_at_risk, find_slave_reads
from udfs.findings.duplicates import find_duplicates
from udfs.findings.members import (
    CLIENT_ID_AT_RISK,
    INCONSISTENT_SUBSCRIPTION,
    find_client_ids_at_risk,
    find_group_offline,
    find_inconsistent_subscription,
)
from udfs.findings.queues import (
    DOUBLED_QUEUE,
    OFFSET_REGRESSION,
    SILENT_QUEUE,
    find_doubled,
    find_regressions,
    find_silent,
)
from udfs.findings.starved import STARVED_QUEUE, find_starved
from udfs.findings.views import find_split_view
from udfs.plan import DUPLICATE_CLIENT_ID
from udfs.scene import Findings, Scene

FINDERS: tuple[tuple[str, Callable[[Scene], Findings]], ...] = (
    (DUPLICATE_CLIENT_ID, find_duplicates),
    (GROUP_OFFLINE, find_group_offline),
    (SPLIT_VIEW, find_split_view),
    (STARVED_QUEUE, find_starved),
    (SILENT_QUEUE, find_silent),
    (DOUBLED_QUEUE, find_doubled),
    (INCONSISTENT_SUBSCRIPTION, find_inconsistent_subscription),
    (SLAVE_READ, find_slave_reads),
    (OFFSET_REGRESSION, find_regressions),
    (ORDER_AT_RISK, find_orders_at_risk),
    (CLIENT_ID_AT_RISK, find_client_ids_at_risk),
)
"""Kind and finder, in the order they are asked."""
