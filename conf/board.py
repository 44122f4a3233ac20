"""The `[board]` section: address, refresh interval, access."""

import re
from ipaddress import ip_address, ip_network
from typing import Annotated

from pydantic import Field, field_validator

from conf.section import Served, Variable, invalid

WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104  # compared, not bound
USUAL_PORT = 8050
_NAME = re.compile(r"[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]")


class Board(Served):
    refresh_seconds: Annotated[float, Field(ge=1, le=3_600)]
    stale_seconds: Annotated[float, Field(ge=10, le=86_400)]
    threads: Annotated[int, Field(ge=1, le=64)]
    token_env: Variable
    allowed_hosts: tuple[Annotated[str, Field(min_length=1, max_length=255)], ...] = Field(max_length=50)
    trusted_proxy: Annotated[str, Field(max_length=255)]
    session_hours: Annotated[float, Field(ge=0.01, le=720)]
    write: bool

    @field_validator("allowed_hosts")
    @classmethod
    def _are_names_alone(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for number, name in enumerate(names):
            if not _NAME.fullmatch(name):
                raise invalid(
                    f"[{number}] = {name!r} is not a plain host name; leave out scheme, port and path, as in "
                    "'board.example.org', and put an IPv6 address in brackets"
                )
        return names

    @field_validator("trusted_proxy")
    @classmethod
    def _are_networks(cls, text: str) -> str:
        try:
            for network in text.split(",") if text else ():
                ip_network(network.strip())
        except ValueError:
            raise invalid(
                "is no IP address or network; give those of the proxies, such as '127.0.0.1' or '10.42.0.0/16,::1'"
            ) from None
        return text

    def is_proxy(self, address: str) -> bool:
        """Return whether the X-Forwarded headers of this address are trusted."""
        try:
            peer = ip_address(address)
        except ValueError:
            return False
        return any(peer in ip_network(network.strip()) for network in self.trusted_proxy.split(",") if network)

    @property
    def own_url(self) -> str:
        """Return the board's URL on this machine; with port 0, the default port."""
        host = "127.0.0.1" if self.host in WILDCARDS else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port or USUAL_PORT}"
