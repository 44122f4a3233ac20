"""Every metric there is, in one list. The exporter makes no other; the manual, the rules and the board know these."""

from types import ModuleType

from streaming.metrics import health_names, verdict_names
from streaming.metrics.metric import Metric


def _listed_in(module: ModuleType) -> tuple[Metric, ...]:
    return tuple(value for value in vars(module).values() if isinstance(value, Metric))


VERDICTS = _listed_in(verdict_names)
HEALTH = _listed_in(health_names)

METRICS: tuple[Metric, ...] = (*VERDICTS, *HEALTH)
"""In the order in which they stand in their files."""
