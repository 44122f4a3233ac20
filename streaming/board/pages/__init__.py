"""All pages, in the order of the navigation. A page is a module of this folder with its Page as PAGE."""

from typing import Any

from streaming.board.pages import alerts, assignment_history, brokers, group, groups, incident, overview, quality
from streaming.board.pages.page import Page

PAGES: tuple[Page[Any], ...] = (
    overview.PAGE,
    alerts.PAGE,
    groups.PAGE,
    brokers.PAGE,
    quality.PAGE,
    incident.PAGE,
    group.PAGE,
    assignment_history.PAGE,
)
