"""What the robots of the chats share: one address, a signature where it is asked for, many notices in a message."""

from streaming.oncall.links import NO_LINKS, Links
from streaming.oncall.posting import TIME_OUTS, Poster, TimeOuts


class Robot:
    """One robot. `url` holds its token; `secret` where its security setting is the signature."""

    at_most = 20
    is_leased = False

    def __init__(
        self,
        name: str,
        url: str,
        *,
        secret: str | None = None,
        links: Links = NO_LINKS,
        time_outs: TimeOuts = TIME_OUTS,
    ) -> None:
        """Raises AddressError."""
        self.name = name
        self._secret = secret
        self._links = links
        self._poster = Poster(url, secrets=[secret] if secret else [], time_outs=time_outs)

    def close(self) -> None:
        self._poster.close()
