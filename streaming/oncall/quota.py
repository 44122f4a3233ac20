"""How many alerts of one kind and cluster are told at a time, and who waits for room."""

from streaming.oncall.notice import Notice
from streaming.oncall.own_book import HeldBack
from streaming.oncall.story import Story
from udfs.page_limit import pick_told, rank_of

Scope = tuple[str, str]
"""Cluster and kind: what the limit counts by."""


def _scope(notice: Notice) -> Scope:
    return notice.cluster, notice.kind


class Quota:
    """What was told keeps its place until it is over; `admit` gives free places to those that wait."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[Scope, dict[str, Story]] = {}
        self._told: dict[Scope, set[str]] = {}

    @property
    def reason(self) -> str:
        """Why those that wait are not told."""
        return f"{self._limit} of this kind and cluster are told"

    def wait(self, notice: Notice, story: Story) -> None:
        self._waiting.setdefault(_scope(notice), {})[notice.incident_id] = story

    def leave(self, notice: Notice) -> None:
        """It waits no more."""
        self._waiting.get(_scope(notice), {}).pop(notice.incident_id, None)

    def take(self, notice: Notice) -> None:
        """It is told, whether there is room or not."""
        self._told.setdefault(_scope(notice), set()).add(notice.incident_id)

    def free(self, notice: Notice) -> None:
        """It is over."""
        self._told.get(_scope(notice), set()).discard(notice.incident_id)

    def has_room(self, notice: Notice) -> bool:
        return len(self._told.get(_scope(notice), ())) < self._limit

    def admit(self, notice: Notice) -> list[tuple[Story, Notice]]:
        """As many of its kind and cluster as there is room for; they wait no more, and have their places."""
        told, waiting = self._told.setdefault(_scope(notice), set()), self._waiting.get(_scope(notice), {})
        if not waiting or len(told) >= self._limit:
            return []
        picked = pick_told(len(told), [story.waiting() for story in waiting.values()], self._limit)
        told.update(picked)
        stories = [waiting.pop(incident_id) for incident_id in picked]
        return [(story, story.newest.notice) for story in stories if story.newest is not None]

    def held_back(self, cluster: str, kind: str) -> list[Notice]:
        """Those of this kind that wait."""
        return [story.newest.notice for story in self._waiting.get((cluster, kind), {}).values() if story.newest]

    def waiting(self) -> list[Story]:
        """All that wait."""
        return [story for stories in self._waiting.values() for story in stories.values()]

    def counted(self) -> list[HeldBack]:
        """What the alerts that stand for the rest say."""
        counted = []
        for cluster, kind in self._waiting:
            notices = self.held_back(cluster, kind)
            if notices:
                worst = min((notice.severity for notice in notices), key=rank_of)
                counted.append(HeldBack(cluster, kind, len(notices), self._limit, worst))
        return counted
