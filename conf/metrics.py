"""The `[metrics]` section: addresses of metrics and health checks, and their time-outs."""

from typing import Annotated

from pydantic import Field

from conf.section import Port, Served, VariableOrNone, not_below


class Metrics(Served):
    enabled: bool
    relay_port: Port
    health_port: Port
    relay_health_port: Port
    token_env: VariableOrNone
    max_groups: Annotated[int, Field(ge=1, le=100_000)]
    unready_after_seconds: Annotated[float, Field(ge=15, le=86_400)]
    unhealthy_after_seconds: Annotated[float, Field(ge=30, le=86_400), not_below("unready_after_seconds")]
