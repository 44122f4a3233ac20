"""All pages, in the order of the navigation. A page is a module of this folder with its Page as PAGE."""

from streaming.board.page import Page
from streaming.board.pages import (
    alerts,
    brokers,
    deliveries,
    group,
    groups,
    history,
    incident,
    overview,
    quality,
    silences,
)

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    alerts.PAGE,
    groups.PAGE,
    brokers.PAGE,
    silences.PAGE,
    deliveries.PAGE,
    quality.PAGE,
    incident.PAGE,
    group.PAGE,
    history.PAGE,
)
