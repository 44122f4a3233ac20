"""The `[board]` section: address, refresh interval, access."""

import re
from ipaddress import ip_address, ip_network
from typing import Annotated

from pydantic import Field, field_validator

from conf.section import Served, Variable, between, invalid, require

WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104  # compared, not bound
USUAL_PORT = 8050
HostName = Annotated[
    str,
    Field(max_length=255),
    require(
        re.compile(r"[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]").fullmatch,
        "is not a plain host name; leave out scheme, port and path, as in 'board.example.org', and put an IPv6 address "
        "in brackets",
    ),
]


class Board(Served):
    refresh_seconds: Annotated[float, between(1, 3_600)]
    stale_seconds: Annotated[float, between(10, 86_400)]
    threads: Annotated[int, between(1, 64)]
    token_env: Variable
    allowed_hosts: tuple[HostName, ...] = Field(max_length=50)
    trusted_proxy: Annotated[str, Field(max_length=255)]
    session_hours: Annotated[float, between(0.01, 720)]
    write: bool

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
