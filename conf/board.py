"""The `[board]` of the settings: where the pages are served, how often they look, and who may see them."""

from ipaddress import ip_address
from typing import Annotated

from pydantic import Field

from conf.section import Section

LOOPBACK_NAMES = frozenset({"localhost"})


class Board(Section):
    """All of `[board]`."""

    host: Annotated[str, Field(min_length=1, max_length=255)]
    port: Annotated[int, Field(ge=0, le=65_535)]
    refresh_seconds: Annotated[float, Field(ge=1, le=3_600)]
    stale_seconds: Annotated[float, Field(ge=10, le=86_400)]
    threads: Annotated[int, Field(ge=1, le=64)]
    token_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    allowed_hosts: tuple[Annotated[str, Field(min_length=1, max_length=255)], ...] = Field(max_length=50)
    session_hours: Annotated[float, Field(gt=0, le=720)]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host.lower() in LOOPBACK_NAMES:
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False
