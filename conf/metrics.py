"""The `[metrics]` section: addresses of metrics and health checks, and their time-outs."""

from typing import Annotated

from pydantic import Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from conf.section import Section, VariableOrNone, invalid, is_loopback

Port = Annotated[int, Field(ge=0, le=65_535)]


class Metrics(Section):
    """All of `[metrics]`."""

    enabled: bool
    host: Annotated[str, Field(min_length=1, max_length=255)]
    port: Port
    relay_port: Port
    health_port: Port
    relay_health_port: Port
    token_env: VariableOrNone
    max_groups: Annotated[int, Field(ge=1, le=100_000)]
    unready_after_seconds: Annotated[float, Field(ge=15, le=86_400)]
    unhealthy_after_seconds: Annotated[float, Field(ge=30, le=86_400)]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @field_validator("unhealthy_after_seconds")
    @classmethod
    def _is_not_below_late(cls, hung: float, known: ValidationInfo) -> float:
        late = known.data.get("unready_after_seconds", 0)
        if hung < late:
            raise invalid(f"must not be below unready_after_seconds = {late:g}")
        return hung
