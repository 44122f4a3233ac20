"""Alerts that another one explains: they wait under it, as long as somebody hears of that one."""

from collections.abc import Mapping

from streaming.oncall.story import Story
from udfs.routing import QUIET


class Effects:
    """Stories by the incident that explains them."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, Story]] = {}
        self._causes: dict[str, str] = {}

    def is_explained(self, receivers: Mapping[str, str], cause: Story | None) -> bool:
        """Whether the cause stands for an effect that would go to these. A cause not seen yet is believed.

        Not: when no route takes the cause, or it is only logged and the effect is not.
        """
        is_quiet = all(route == QUIET for route in receivers.values())
        return is_quiet or cause is None or cause.is_heard()

    def wait(self, incident_id: str, story: Story, cause_id: str) -> None:
        self._waiting.setdefault(cause_id, {})[incident_id] = story
        self._causes[incident_id] = cause_id

    def leave(self, incident_id: str) -> None:
        """It waits no more."""
        cause_id = self._causes.pop(incident_id, None)
        if cause_id is not None:
            stories = self._waiting.get(cause_id, {})
            stories.pop(incident_id, None)
            if not stories:
                self._waiting.pop(cause_id, None)

    def release(self, cause_id: str) -> list[Story]:
        """Nobody hears of this cause; those that waited under it are to be considered anew."""
        return list(self._waiting.get(cause_id, {}).values())
