"""Who hears what a relay does, such as its metrics. Called from the relay's thread: be quick, and never raise."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from streaming.oncall.record import Record
from streaming.oncall.worker import Reply


class RelayListener(Protocol):
    """One hearer."""

    def answered(self, reply: Reply) -> None:
        """A call was made; renewals too."""

    def decided(self, records: Sequence[Record], self_alerts: Sequence[Mapping[str, Any]]) -> None:
        """Rows of the delivery log, and of the alerts table about the relay itself, before they are written."""

    def owes(self, due: Mapping[str, int]) -> None:
        """Receiver to the notices it does not have yet, now and then."""

    def restarted(self) -> None:
        """It failed, and begins anew from the tables."""


class NullListener:
    """Nobody hears."""

    def answered(self, reply: Reply) -> None: ...
    def decided(self, records: Sequence[Record], self_alerts: Sequence[Mapping[str, Any]]) -> None: ...
    def owes(self, due: Mapping[str, int]) -> None: ...
    def restarted(self) -> None: ...
