"""Who holds the page of a trouble that several alerts tell of, and who waits under it."""

from streaming.oncall.notice import Notice
from streaming.oncall.story import Story
from udfs.broker_trouble import trouble_of

Trouble = tuple[str, str]


def _trouble(notice: Notice) -> Trouble | None:
    return trouble_of(notice.kind, notice.cause, notice.cluster, notice.broker_name)


class SameTrouble:
    """Told incidents by their trouble. An incident that is told holds it until it is over."""

    def __init__(self) -> None:
        self._holders: dict[Trouble, str] = {}
        self._waiting: dict[str, Story] = {}

    def holder(self, notice: Notice) -> str | None:
        """The other incident that has the page already."""
        trouble = _trouble(notice)
        held_by = self._holders.get(trouble) if trouble else None
        return None if held_by == notice.incident_id else held_by

    def hold(self, notice: Notice) -> None:
        """It is told."""
        if (trouble := _trouble(notice)) is not None:
            self._holders.setdefault(trouble, notice.incident_id)

    def wait(self, incident_id: str, story: Story) -> None:
        self._waiting[incident_id] = story

    def leave(self, incident_id: str) -> None:
        """It waits no more."""
        self._waiting.pop(incident_id, None)

    def release(self, incident_id: str) -> list[Story]:
        """It is over; those that waited under it are to be considered anew."""
        self.leave(incident_id)
        held = [trouble for trouble, holder in self._holders.items() if holder == incident_id]
        for trouble in held:
            del self._holders[trouble]
        return list(self._waiting.values()) if held else []
